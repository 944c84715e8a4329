"""One page of a long list."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Paged(Generic[T]):
    """The items of page `number`, which counts from 1. `total` counts the items of all `pages`."""

    items: Sequence[T]
    number: int
    pages: int
    total: int


def paged(items: Sequence[T], number: int, size: int) -> Paged[T]:
    """Return a page of `size` items. A number beyond the last page means the last page."""
    pages = max(1, -(-len(items) // size))
    number = min(max(1, number), pages)
    return Paged(items[(number - 1) * size : number * size], number, pages, len(items))
