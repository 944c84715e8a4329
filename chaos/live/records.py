"""Reads the JSON records of a run's directory into dataclasses, and checks their types and ranges.

The files of a run may have been changed since, so each value is checked. The error names the file, the line and the
value.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, TypeVar, cast

from pydantic import TypeAdapter, ValidationError

from chaos.errors import ChaosError

T = TypeVar("T")

# The most bytes that an error message shows of a file.
_SHOWN = 100
_ADAPTERS: dict[type[Any], TypeAdapter[Any]] = {}


def read_records(path: Path, kind: type[T]) -> list[T]:
    """Return the records of a file of JSON lines; an empty list if there is no file. A last line without a newline is
    left out, because its writer was killed or the file was cut. Raises ChaosError for any other invalid line."""
    try:
        lines = path.read_bytes().split(b"\n")[:-1]
    except FileNotFoundError:
        return []
    except OSError as error:
        raise ChaosError(f"{path} cannot be read: {error.strerror}") from error
    return [record_of(line, kind, f"{path}:{number}") for number, line in enumerate(lines, 1)]


def record_of(text: bytes, kind: type[T], where: str) -> T:
    """Return the record that a JSON text stands for. Raises ChaosError, which begins with `where`."""
    try:
        return cast(T, _adapter(kind).validate_json(text, strict=True))
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        place = ".".join(map(str, first["loc"]))
        raise ChaosError(f"{where}: {f'{place}: ' if place else ''}{first['msg'][:_SHOWN]}") from error


def _adapter(kind: type[Any]) -> TypeAdapter[Any]:
    if kind not in _ADAPTERS:
        _ADAPTERS[kind] = TypeAdapter(kind)
    return _ADAPTERS[kind]
