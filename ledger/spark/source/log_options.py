"""Checks the options of the source "ledgermq-log", which reads logs from files.

The rules are the same as in options.py, except that the option `path` replaces the addresses of servers.
"""

from __future__ import annotations

import glob
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass

from ledger.client.consumer.tags import wanted_tags
from ledger.errors import InvalidArgumentError
from ledger.spark.source.options import GivenOptions, boolean, regular_expression, topic_list

LOG_OPTIONS = (
    *("path", "paths", "subscribe", "subscribePattern", "replica", "committed"),
    *("tag", "includeHeaders", "failOnDataLoss"),
)


@dataclass(frozen=True, slots=True)
class LogOptions:
    # Data directories of nodes, or addresses of their HTTP ports.
    paths: tuple[str, ...]
    # None: all topics whose names match `pattern`.
    topics: tuple[str, ...] | None
    pattern: str
    # "any": the longest log of each shard; "all": every log; or the number of a node.
    replica: str
    only_committed: bool
    tags: frozenset[str] | None
    include_headers: bool
    fail_on_data_loss: bool

    def wants(self, topic: str) -> bool:
        return topic in self.topics if self.topics is not None else re.fullmatch(self.pattern, topic) is not None


def log_options(given: Mapping[str, str]) -> LogOptions:
    """Return the checked options. Raises InvalidArgumentError."""
    options = GivenOptions(given, LOG_OPTIONS)
    if options.first_of("subscribe") and options.first_of("subscribePattern"):
        raise InvalidArgumentError(
            'Give only one of the options "subscribe" and "subscribePattern"; without both, all topics are read.'
        )
    return LogOptions(
        paths=_paths(options),
        topics=options.optional("subscribe", topic_list),
        pattern=options.get("subscribePattern", regular_expression, "[^%].*"),
        replica=options.get("replica", _replica, "any"),
        only_committed=options.get("committed", boolean, False),
        tags=options.get("tag", wanted_tags, None),
        include_headers=options.get("includeHeaders", boolean, False),
        fail_on_data_loss=options.get("failOnDataLoss", boolean, True),
    )


def _paths(options: GivenOptions) -> tuple[str, ...]:
    """Return the paths of .load(path), .load([path, ...]) or the option `path`, with wildcards expanded.

    The text of an option may name several paths, separated by commas.
    """
    from ledger.validation.sources.access import is_url  # here, because Spark imports this module to learn a name

    name = options.first_of("paths", "path")
    if name is None:
        raise InvalidArgumentError("No path is given: pass the data directory of a node, or several, to .load().")
    given = json.loads(options.text(name)) if name == "paths" else options.text(name).split(",")
    found: list[str] = []
    for path in (part.strip() for part in given):
        is_pattern = not is_url(path) and glob.has_magic(path)
        expanded = sorted(glob.glob(path)) if is_pattern else [path]
        if not expanded or not path:
            raise options.wrong(name, "no file or directory has this name")
        found += expanded
    return tuple(dict.fromkeys(path.removeprefix("file://") for path in found))


def _replica(text: str) -> str:
    text = text.strip().lower()
    if text not in ("any", "all") and not text.isdecimal():
        raise ValueError("use any, all, or the number of a node")
    return text
