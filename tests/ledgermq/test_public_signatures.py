"""Tests that programs can name every type in a public signature: it is public, of Python, or of another library."""

from __future__ import annotations

import ast
import builtins
import inspect
import sys
from collections.abc import Iterator
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any, TypeVar

import pytest

import ledgermq
from ledger.client.group.group_membership import GroupMember

FOLDER = Path(ledgermq.__file__).parent
MODULES = sorted(
    "ledgermq" if path.stem == "__init__" else f"ledgermq.{path.stem}"
    for path in FOLDER.glob("*.py")
    if not path.stem.startswith("_") or path.stem == "__init__"
)
OURS = {path.name for path in FOLDER.parent.iterdir() if (path / "__init__.py").exists()}
# Programs pass these objects on, and call none of their methods.
OPAQUE = {"Engine", "PlainEngine"}
# Programs make objects of these classes, apart from the clients.
MADE = {"Cluster", "EmbeddedNode", "LedgermqContainer", "OutgoingMessage"}
# Methods for the broker, which the API reference leaves out.
INNER = {"Rule.matches"}


@cache
def public() -> dict[str, Any]:
    return {name: getattr(import_module(module), name) for module in MODULES for name in import_module(module).__all__}


def signatures(name: str, value: Any) -> Iterator[tuple[str, Any]]:
    """Yield each public function of a name, and what has the annotations of its fields."""
    if not inspect.isclass(value):
        if callable(value) and inspect.getmodule(value) is not None:
            yield name, value
        return
    for attribute in dir(value):
        member = inspect.getattr_static(value, attribute)
        is_made = name in MADE or name.endswith(("Admin", "Consumer", "Producer"))
        if f"{name}.{attribute}" in INNER or (attribute.startswith("_") and not (is_made and attribute == "__init__")):
            continue
        if isinstance(member, property):
            yield f"{name}.{attribute}", member.fget
        elif inspect.isfunction(inspect.unwrap(getattr(value, attribute))):
            yield f"{name}.{attribute}", inspect.unwrap(getattr(value, attribute))
    for base in value.__mro__:
        if base.__module__.partition(".")[0] in OURS:
            yield name, base


def names_in(annotation: object) -> set[str]:
    """Return the names that an annotation begins with, such as `np` of np.int64."""
    if not isinstance(annotation, str):
        return set()
    tree = ast.parse(annotation)
    literals = {
        id(part)
        for node in ast.walk(tree)
        if isinstance(node, ast.Subscript) and ast.unparse(node.value) == "Literal"
        for part in ast.walk(node.slice)
    }
    return {node.id for node in ast.walk(tree) if isinstance(node, ast.Name) and id(node) not in literals}


def is_known(name: str, owner: Any) -> bool:
    """Return True if programs can name this: it is public, of Python, of another library, or a type variable."""
    if hasattr(builtins, name):
        return True
    module = sys.modules[owner.__module__]
    if name in public():
        return bool(getattr(module, name, public()[name]) == public()[name])
    if not hasattr(module, name):  # imported for type checkers only
        origin = imported_from(module).get(name, "")
        return bool(origin) and origin.partition(".")[0] not in OURS
    value = getattr(module, name)
    origin = value.__name__ if inspect.ismodule(value) else getattr(value, "__module__", "")
    is_ours = origin.partition(".")[0] in OURS or name in assigned_in(module)
    return isinstance(value, TypeVar) or not is_ours


@cache
def tree_of(module: Any) -> ast.Module:
    return ast.parse(inspect.getsource(module))


def imported_from(module: Any) -> dict[str, str]:
    return {
        alias.asname or alias.name: (node.module or "") if isinstance(node, ast.ImportFrom) else alias.name
        for node in ast.walk(tree_of(module))
        if isinstance(node, (ast.Import, ast.ImportFrom))
        for alias in node.names
    }


def assigned_in(module: Any) -> set[str]:
    """Return the aliases that the module defines, or imports from another module of ours."""
    assigned = {
        target.id
        for node in tree_of(module).body
        if isinstance(node, ast.Assign)
        for target in node.targets
        if isinstance(target, ast.Name)
    }
    return assigned | {name for name, home in imported_from(module).items() if home.partition(".")[0] in OURS}


def annotations_of(owner: Any) -> list[object]:
    return [value for name, value in inspect.get_annotations(owner).items() if not name.startswith("_")]


@pytest.mark.parametrize("module", MODULES)
def test_programs_can_name_every_type_in_a_public_signature(module: str) -> None:
    unknown = {
        f"{where}: {name}"
        for public_name in import_module(module).__all__
        if public_name not in OPAQUE
        for where, owner in signatures(public_name, getattr(import_module(module), public_name))
        for annotation in annotations_of(owner)
        for name in names_in(annotation)
        if not is_known(name, owner)
    }
    assert unknown == set()


def test_the_walk_sees_arguments_results_and_fields() -> None:
    client = {
        name
        for _, owner in signatures("AsyncProducer", ledgermq.AsyncProducer)
        for annotation in annotations_of(owner)
        for name in names_in(annotation)
    }
    assert {"QueueSelector", "Table", "RecordMetadata", "Sent"} <= client
    assert "ClusterClient" in {name for value in annotations_of(GroupMember.__init__) for name in names_in(value)}
    assert not is_known("ClusterClient", GroupMember.__init__)
