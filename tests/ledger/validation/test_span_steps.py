"""Steps of a span that are sent to another process come out as they were, and take little memory on the way."""

from __future__ import annotations

import pickle

import pytest

from ledger.validation.spans import span_steps
from ledger.validation.spans.span_steps import SpanSteps
from ledger.validation.spans.steps import CommandApplied, RunEnds, Step


@pytest.mark.parametrize("count", [0, 3, 4, 5, 8, 11])
def test_packed_steps_keep_their_order(count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(span_steps, "PART", 4)
    wanted: list[Step] = [RunEnds(index) for index in range(count + 1)]
    steps = SpanSteps()
    steps.extend(wanted[: min(2, count)])
    steps.extend(wanted[2:count])
    sent: SpanSteps = pickle.loads(pickle.dumps(steps))
    assert list(steps) == list(sent) == list(sent) == wanted[:count]
    sent.extend(wanted[count:])
    assert list(pickle.loads(pickle.dumps(sent))) == wanted


def test_a_hundred_thousand_steps_take_a_few_bytes_each() -> None:
    steps = SpanSteps()
    steps.extend(CommandApplied(index, 1_700_000_000_000 + index, b"a command" * 5) for index in range(100_000))
    assert len(pickle.dumps(steps)) < 100_000 * 15
