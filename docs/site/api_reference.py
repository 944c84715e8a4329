"""The API reference: how autodoc writes the docstrings, signatures and fields of the public names."""

from __future__ import annotations

import builtins
import dataclasses
import inspect
import operator
import re
import sys
from collections.abc import Sequence
from enum import Enum
from importlib import import_module
from typing import Any, TypeVar

from docutils import nodes
from sphinx import addnodes
from sphinx.application import Sphinx
from sphinx.util.inspect import signature as signature_of

from plain_text import literal, tables, to_rst

MODULES = (
    "ledgermq",
    "ledgermq.embedded",
    "ledgermq.errors",
    "ledgermq.spark",
    "ledgermq.testing",
    "ledgermq.testcontainers",
    "ledgermq.types",
    "ledgermq.validation",
)

# The records that programs make themselves.
ARGUMENTS = {"OutgoingMessage"}
# The classes that are no records, whose objects programs only get.
GIVEN = {"AsyncTransaction", "GroupBatch", "Transaction"}

# Names of two words or more, such as AsyncProducer. A word such as "Message" in prose may be no name.
_CLASS_NAME = re.compile(r"\b[A-Z][a-z]+(?:[A-Z][a-z]+)+\b")
_TYPES = {name for name, value in vars(builtins).items() if isinstance(value, type)}
_CALL = re.compile(r"([A-Za-z_][\w.]*)\(\)")


def public_names() -> dict[str, str]:
    """Return each public name with its full name, such as "Message": "ledgermq.Message"."""
    names: dict[str, str] = {}
    for module in MODULES:
        for name in import_module(module).__all__:
            names.setdefault(name, f"{module}.{name}")
    names["LedgerError"] = "ledgermq.errors.LedgerError"
    return names


class Links:
    """Turns names in docstrings into links."""

    def __init__(self) -> None:
        self._names = public_names()

    def code(self, text: str) -> str:
        """Return the role for a text between backticks."""
        owner, _, attribute = text.removesuffix("()").partition(".")
        if owner in self._names and attribute.isidentifier() | (not attribute):
            target = ".".join(part for part in (self._names[owner], attribute) if part)
            return f":py:obj:`{text} <{target}>`" if attribute else f":py:class:`{text} <{target}>`"
        call = _CALL.fullmatch(text)
        return f":py:obj:`{text} <{call[1]}>`" if call else literal(text)

    def prose(self, text: str) -> str:
        """Return escaped prose with links in place of the names of public classes."""

        def link(match: re.Match[str]) -> str:
            target = self._names.get(match[0])
            return f"\\ :py:class:`{match[0]} <{target}>`\\ " if target else match[0]

        return _CLASS_NAME.sub(link, text)


def is_record(value: object) -> bool:
    """Return True for a dataclass or named tuple: programs get its objects, and do not make them."""
    return inspect.isclass(value) and (dataclasses.is_dataclass(value) or hasattr(value, "_fields"))


def _docstring(links: Links, kind: str, name: str, value: Any) -> str:
    """Return the docstring of a public name as reStructuredText."""
    if kind == "attribute":
        return _field(links, name, value)
    text = inspect.getdoc(value) or ""
    if dataclasses.is_dataclass(value) and text.startswith(f"{name.rpartition('.')[2]}("):
        return ""  # what the dataclass wrote
    return to_rst(text, links.code, links.prose, without=_fields(value) if is_record(value) else ())


def _field(links: Links, name: str, value: Any) -> str:
    """Return what the table in the docstring of a record says of this field."""
    module = next(each for each in sorted(sys.modules, key=len, reverse=True) if name.startswith(f"{each}."))
    *owner, field = name.removeprefix(f"{module}.").split(".")
    record = operator.attrgetter(".".join(owner))(sys.modules[module]) if owner else None
    rows = dict(tables(inspect.getdoc(record) or "")) if is_record(record) else {}
    return to_rst(rows.get(field, ""), links.code, links.prose)


def _fields(record: Any) -> Sequence[str]:
    return tuple(getattr(record, "__annotations__", ()))


def _facts_of_error(error: type[Exception]) -> list[str]:
    code, retriable = getattr(error, "code", ""), getattr(error, "retriable", False)
    facts = [f"Code ``{code}``."] if isinstance(code, str) and code else []
    facts += ["Retriable."] if retriable is True else []
    return [" ".join(facts), ""] if facts else []


def _is_made_here(value: object) -> bool:
    """Return True for a class whose objects only ledgermq makes."""
    if not inspect.isclass(value) or value.__name__ in ARGUMENTS:
        return False
    return value.__name__ in GIVEN or is_record(value) or issubclass(value, (Exception, Enum))


def _unlink_types_of_python(_: Sphinx, document: nodes.document) -> None:
    """A type such as `bytes` in a signature is not the field `bytes` of a record, and a type variable has no page."""
    for reference in list(document.findall(addnodes.pending_xref)):
        target = reference["reftarget"]
        if (reference["refdomain"], reference["reftype"]) != ("py", "class"):
            continue
        if target in _TYPES or _is_type_variable(target):
            reference.replace_self(nodes.Text(target.rpartition(".")[2]))


def _is_type_variable(name: str) -> bool:
    module, _, variable = name.rpartition(".")
    return isinstance(getattr(sys.modules.get(module), variable, None), TypeVar)


def _show_constructors() -> None:
    """Give the clients the signatures of their `__init__`. Their `__new__` checks the arguments of a call before, and
    autodoc would show the parameters of this check."""
    for name in import_module("ledgermq").__all__:
        value = getattr(import_module("ledgermq"), name)
        if inspect.isclass(value) and not is_record(value) and inspect.isfunction(value.__init__):
            setattr(value, "__signature__", signature_of(value.__init__, bound_method=True))  # noqa: B010


def setup(app: Sphinx) -> dict[str, Any]:
    _show_constructors()
    links = Links()

    def docstring(_: Sphinx, kind: str, name: str, value: Any, __: object, lines: list[str]) -> None:
        lines[:] = [*_docstring(links, kind, name, value).splitlines(), ""]
        if inspect.isclass(value) and issubclass(value, Exception):
            lines += _facts_of_error(value)

    def signature(*told: Any) -> tuple[str, None] | None:
        _, _, _, value, _, text, _ = told
        return ("", None) if text and _is_made_here(value) else None

    app.connect("autodoc-process-docstring", docstring)
    app.connect("autodoc-process-signature", signature)
    app.connect("doctree-read", _unlink_types_of_python)
    return {"parallel_read_safe": True}
