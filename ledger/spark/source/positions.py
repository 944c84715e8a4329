"""Where reading begins or ends, as a user says it: Kafka's JSON and words.

    "earliest"    "latest"    {"orders": {"0": 23, "1": -1, "2": -2}}     -1: latest, -2: earliest
    and, of queues to read:   {"orders": [0, 1]}

What the text says is kept as it is, a number for each queue; what these numbers mean at this moment the cluster says,
later (`planning.py`). Pure.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

LATEST_OFFSET, EARLIEST_OFFSET = -1, -2

Offsets = Mapping[str, Mapping[str, int]]
"""Topic -> queue (as text, since these are JSON) -> offset: also what Spark keeps in a stream's checkpoint."""


@dataclass(frozen=True, slots=True)
class Position:
    """One of the four is set: the same for all queues (`everywhere`, LATEST_OFFSET or EARLIEST_OFFSET; `time_ms`), or
    one for each (`offsets`; `times`, in ms since 1970). `strict`: that nothing has come since a time is an error."""

    everywhere: int | None = None
    offsets: Offsets | None = None
    time_ms: int | None = None
    times: Offsets | None = None
    strict: bool = False


LATEST, EARLIEST = Position(everywhere=LATEST_OFFSET), Position(everywhere=EARLIEST_OFFSET)
_WORDS = {"latest": LATEST, "earliest": EARLIEST}


def positions_from(text: str, *, ending: bool = False) -> Position:
    """Raises ValueError, with what would be right."""
    word = _WORDS.get(text.strip().lower())
    if word is not None:
        return word
    least = LATEST_OFFSET if ending else EARLIEST_OFFSET
    return Position(
        offsets=_numbers(text, least, f"an offset from 0 on, or -1 (latest){'' if ending else ', or -2 (earliest)'}")
    )


def positions_at_times(text: str, *, strict: bool) -> Position:
    """Raises ValueError."""
    return Position(times=_numbers(text, 0, "milliseconds since 1970"), strict=strict)


def queues_from(text: str) -> Mapping[str, tuple[int, ...]]:
    """Raises ValueError."""
    found = {}
    for topic, queues in _object(text).items():
        if not isinstance(queues, list) or not queues or not all(_is_number(queue) and queue >= 0 for queue in queues):
            raise ValueError(f'the queues of "{topic}" are {json.dumps(queues)}; write them like {{"orders": [0, 1]}}')
        found[topic] = tuple(sorted(set(queues)))
    return found


def _numbers(text: str, least: int, wanted: str) -> Offsets:
    found: dict[str, dict[str, int]] = {}
    for topic, queues in _object(text).items():
        if not isinstance(queues, dict):
            raise ValueError(
                f'what it has for "{topic}" is {json.dumps(queues)}; write it like {{"orders": {{"0": 23}}}}'
            )
        for queue, number in queues.items():
            if not queue.isdecimal():
                raise ValueError(f'"{queue}" is no queue of "{topic}": a queue is a number from 0 on')
            if not _is_number(number) or not least <= number < 1 << 62:
                raise ValueError(f'queue {queue} of "{topic}" has {json.dumps(number)} there, and needs {wanted}')
        found[topic] = {str(int(queue)): number for queue, number in queues.items()}
    return found


def _object(text: str) -> dict[str, Any]:
    try:
        found = json.loads(text)
    except ValueError as error:
        raise ValueError(f"that is neither a word that is known here nor JSON ({error})") from error
    if not isinstance(found, dict) or not found:
        raise ValueError("the JSON must be an object with topics, and name one at least")
    return found


def _is_number(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)
