"""Parses the options that say where reading starts and ends. The options have the same form as Kafka's options. No
I/O.

    "earliest"    "latest"    {"orders": {"0": 23, "1": -1, "2": -2}}     -1: latest, -2: earliest
    the queues to read:       {"orders": [0, 1]}

This module does not change the offsets and times that the user wrote. `planning.py` replaces the numbers -1 and -2
(latest and earliest) by offsets that the cluster reports.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

LATEST_OFFSET, EARLIEST_OFFSET = -1, -2

# Topic -> queue (a text, as in JSON) -> offset. A stream's checkpoint has the same form.
Offsets = Mapping[str, Mapping[str, int]]


@dataclass(frozen=True, slots=True)
class Position:
    """Where reading starts or ends. Exactly one of the first four fields is set.

    Fields:

        everywhere  LATEST_OFFSET or EARLIEST_OFFSET, for all queues
        offsets     an offset for each queue
        time_ms     a time for all queues, in ms since 1970
        times       a time for each queue, in ms since 1970
        strict      True: it is an error if a queue has no message from the given time on
    """

    everywhere: int | None = None
    offsets: Offsets | None = None
    time_ms: int | None = None
    times: Offsets | None = None
    strict: bool = False


LATEST, EARLIEST = Position(everywhere=LATEST_OFFSET), Position(everywhere=EARLIEST_OFFSET)
_WORDS = {"latest": LATEST, "earliest": EARLIEST}


def positions_from(text: str, *, ending: bool = False) -> Position:
    """Parse a word or offsets as JSON. Raises ValueError, which says what is allowed."""
    word = _WORDS.get(text.strip().lower())
    if word is not None:
        return word
    least = LATEST_OFFSET if ending else EARLIEST_OFFSET
    return Position(
        offsets=_numbers(text, least, f"an offset from 0 on, or -1 (latest){'' if ending else ', or -2 (earliest)'}")
    )


def positions_at_times(text: str, *, strict: bool) -> Position:
    """Parse times as JSON. Raises ValueError."""
    return Position(times=_numbers(text, 0, "milliseconds since 1970"), strict=strict)


def queues_from(text: str) -> Mapping[str, tuple[int, ...]]:
    """Parse queues by topic as JSON. Raises ValueError."""
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
                f'the value for "{topic}" is {json.dumps(queues)}; write it like {{"orders": {{"0": 23}}}}'
            )
        for queue, number in queues.items():
            if not queue.isdecimal():
                raise ValueError(f'"{queue}" is not a queue of "{topic}": a queue is a number from 0 on')
            if not _is_number(number) or not least <= number < 1 << 62:
                raise ValueError(
                    f'the value for queue {queue} of "{topic}" is {json.dumps(number)}; it must be {wanted}'
                )
        found[topic] = {str(int(queue)): number for queue, number in queues.items()}
    return found


def _object(text: str) -> dict[str, Any]:
    try:
        found = json.loads(text)
    except ValueError as error:
        raise ValueError(f"it is neither an allowed word nor JSON ({error})") from error
    if not isinstance(found, dict) or not found:
        raise ValueError("the JSON must be an object with at least one topic")
    return found


def _is_number(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)
