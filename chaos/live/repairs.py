"""Reads what the nodes wrote into their logs about damage: how they found it, and how they repaired it.

A fault that damages files proves little if nobody can see what the node did about the damage. The nemesis notes how
long each node's log is when a fault strikes, and reads the lines that were written until the cluster had recovered.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import Path

from ledger.words import counted

# The loggers of a node that report damage, lost entries, repairs, and indexes that are built again.
_LOGGERS = frozenset(
    f"ledgermq.node.{name}" for name in ("startup_repair", "scrub_repair", "repair", "checkpoints", "shard")
)
_LEVELS = frozenset(("warning", "error"))
# A line as cluster/node/process/logs.py writes it: time, level, sentence, logger.
_LINE = re.compile(r"^\S+ \[(?P<level>\w+) *\] (?P<sentence>.*?) *\[(?P<logger>[\w.]+)\]$")
# The most sentences about one node, and the longest sentence.
_MOST = 6
_LONGEST = 400


def lengths(logs: Mapping[int, Path]) -> dict[int, int]:
    """Return the present length in bytes of each node's log; 0 if there is no log yet."""
    return {node: path.stat().st_size if path.exists() else 0 for node, path in logs.items()}


def reports(logs: Mapping[int, Path], begins: Mapping[int, int]) -> tuple[str, ...]:
    """Return what each node wrote about damage behind the position in `begins`, as `node N: sentence`."""
    return tuple(
        sentence for node, path in sorted(logs.items()) for sentence in _of_node(node, path, begins.get(node, 0))
    )


def _of_node(node: int, path: Path, begin: int) -> list[str]:
    home = f"{path.parent}/"  # paths of files are shorter without the directory of the node
    told = list(dict.fromkeys(sentence.replace(home, "") for sentence in _sentences(_lines(path, begin))))
    more = [f"node {node}: {counted(len(told) - _MOST, 'more line')} in its log"] if len(told) > _MOST else []
    return [*(f"node {node}: {_short(sentence)}" for sentence in told[:_MOST]), *more]


def _sentences(lines: Iterable[str]) -> Iterable[str]:
    for line in lines:
        found = _LINE.match(line)
        if found is not None and found["level"] in _LEVELS and found["logger"] in _LOGGERS:
            yield found["sentence"]


def _short(sentence: str) -> str:
    return sentence if len(sentence) <= _LONGEST else f"{sentence[:_LONGEST]}..."


def _lines(path: Path, begin: int) -> list[str]:
    try:
        with path.open("rb") as file:
            file.seek(begin)
            return file.read().decode("utf-8", errors="replace").splitlines()
    except OSError:
        return []
