"""The part of a log that one Spark task reads."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ledger.validation.sources.replica import LogReplica, ReplicaSpan


@dataclass(frozen=True, slots=True)
class LogSpan:
    """The task reads messages of the topics in `names` (topic id -> name), from entries up to `last_index`."""

    replica: LogReplica
    span: ReplicaSpan
    names: Mapping[int, str]
    last_index: int
