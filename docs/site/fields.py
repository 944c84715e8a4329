"""Reads the settings of a node from the class that defines them: groups, comments, kinds, limits and defaults."""

from __future__ import annotations

import ast
import inspect
import re
import types
import typing
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Literal, NamedTuple

import annotated_types
from pydantic import BaseModel, SecretStr
from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined

_KINDS = {
    bool: "`true` or `false`",
    int: "whole number",
    float: "number",
    str: "text",
    Path: "path",
    SecretStr: "text",
    dict: "table: node number = address",
    tuple: "list",
}


class Setting(NamedTuple):
    """One setting. `kind` says which values are allowed, in words."""

    name: str
    kind: str
    default: str


class Setup(NamedTuple):
    """Settings that one comment describes."""

    settings: list[Setting]
    comment: str


class Chapter(NamedTuple):
    """Settings of one subject. `note` says what holds for all of them."""

    title: str
    note: str
    setups: list[Setup]


def chapters(model: type[BaseModel]) -> list[Chapter]:
    """Return the settings of the model, as its source groups them. `# -- title` begins a chapter. The comment above a
    field describes it and the fields that follow without a comment."""
    found: list[Chapter] = []
    for line in _lines(model):
        match line:
            case str() if line.startswith("-- "):
                title, _, note = re.sub(r"[:.] ", "\n", line.removeprefix("-- "), count=1).partition("\n")
                found.append(Chapter(title, note, []))
            case str():
                found[-1].setups.append(Setup([], line))
            case Name(name):
                found[-1].setups[-1].settings.append(_setting(name, model.model_fields[name]))
    return found


class Name(NamedTuple):
    """The name of a field, among the comments of a class."""

    name: str


def _lines(model: type[BaseModel]) -> Iterator[str | Name]:
    """Return the comments and the names of fields of the class, in order. The lines of one comment are joined."""
    source = inspect.getsource(model)
    (tree,) = ast.parse(source).body
    assert isinstance(tree, ast.ClassDef)
    fields = {
        node.lineno: node.target.id
        for node in tree.body
        if isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name)
    }
    comment: list[str] = []
    for number, line in enumerate(source.splitlines()[: max(fields)], start=1):
        text = line.strip()
        if text.startswith("#"):
            comment.append(text.lstrip("# "))
            continue
        if comment:
            yield " ".join(comment)
            comment = []
        if number in fields:
            yield Name(fields[number])


def _setting(name: str, field: FieldInfo) -> Setting:
    return Setting(name, ", ".join([_kind(field.annotation), *_limits(field.metadata)]), _default(field))


def _kind(annotation: Any) -> str:
    if typing.get_origin(annotation) is typing.Annotated:
        return _kind(typing.get_args(annotation)[0])
    if typing.get_origin(annotation) in (types.UnionType, typing.Union):
        return _kind(next(each for each in typing.get_args(annotation) if each is not type(None)))
    if typing.get_origin(annotation) is Literal:
        return " or ".join(f'`"{each}"`' for each in typing.get_args(annotation))
    return _KINDS[typing.get_origin(annotation) or annotation]


def _limits(metadata: list[Any]) -> Iterator[str]:
    bounds: Mapping[type, str] = {
        annotated_types.Ge: "at least {ge:,}",
        annotated_types.Gt: "more than {gt:,}",
        annotated_types.Le: "at most {le:,}",
        annotated_types.MultipleOf: "a multiple of {multiple_of:,}",
    }
    for each in metadata:
        if type(each) in bounds:
            yield bounds[type(each)].format(**{name: getattr(each, name) for name in each.__slots__})


def _default(field: FieldInfo) -> str:
    if field.default_factory is not None:
        return ""
    match field.default:
        case value if value is PydanticUndefined or value is None or value == ():
            return ""
        case bool(value):
            return str(value).lower()
        case int(value) | float(value):
            return f"{value:,}"
        case tuple(values):
            return ", ".join(str(value) for value in values)
        case value:
            return f'"{value}"'
