"""Tests how spans are divided among tasks, and which facts the driver gets."""

from __future__ import annotations

from itertools import pairwise

import pytest

from ledger.spark.validation.span_tasks import PackedFacts, packed_limit, tasks_of
from ledger.validation.judging.engine import outline_of
from ledger.validation.judging.windows import WindowSum
from ledger.validation.sources.replica import ReplicaSpan
from ledger.validation.spans.span_reader import SpanFacts
from ledger.validation.spans.steps import RunEnds

SPAN_BYTES = 8 << 20


def spans(count: int) -> list[ReplicaSpan]:
    return [
        ReplicaSpan(number, 0, 0, number * SPAN_BYTES, (number + 1) * SPAN_BYTES, is_exact=False)
        for number in range(count)
    ]


def facts_of(steps: int) -> SpanFacts:
    facts = SpanFacts(spans(1)[0], windows=[WindowSum(0, 1, 2)], entries=steps)
    facts.steps.extend(RunEnds(index) for index in range(steps))
    return facts


@pytest.mark.parametrize("count", [0, 1, 2, 7, 8, 9, 500, 3000])
@pytest.mark.parametrize("cores", [1, 2, 16])
def test_each_span_is_read_by_one_task_and_in_its_order(count: int, cores: int) -> None:
    tasks = tasks_of(spans(count), cores)
    assert [span for task in tasks for span in task] == spans(count)
    assert all(tasks)


def test_tasks_are_large_at_first_and_small_at_the_end() -> None:
    sizes = [len(task) * SPAN_BYTES for task in tasks_of(spans(3000), 2, largest=2 << 30, smallest=64 << 20)]
    assert sizes[:2] == [2 << 30, 2 << 30]
    assert all(later <= earlier for earlier, later in pairwise(sizes))
    assert sizes[-2] == 64 << 20 >= sizes[-1]
    assert len(sizes) < 30


def test_cores_end_within_the_time_of_a_small_task() -> None:
    """Each core takes the next task as soon as it is free, as Spark's do."""
    ends = [0, 0]
    for task in tasks_of(spans(3000), 2):
        ends[ends.index(min(ends))] += len(task)
    assert abs(ends[0] - ends[1]) * SPAN_BYTES <= 64 << 20


def test_the_driver_gets_small_facts_whole() -> None:
    facts = facts_of(3)
    sent = PackedFacts.of(facts, 8192).for_driver()
    assert not sent.outline
    assert sent.facts().windows == facts.windows
    assert list(sent.facts().steps) == list(facts.steps)


def test_the_driver_gets_the_outline_of_large_facts_and_tasks_keep_them_all() -> None:
    facts = facts_of(3)
    packed = PackedFacts.of(facts, 100)
    assert list(packed.facts().steps) == list(facts.steps)
    sent = packed.for_driver()
    assert len(sent.data) == 0 < len(sent.outline)
    assert sent.facts().windows == []
    assert list(sent.facts().steps) == []
    assert sent.facts().entries == outline_of(facts).entries == 3


def test_the_driver_takes_a_bounded_number_of_bytes() -> None:
    assert packed_limit(0) == packed_limit(3000) == 8 << 10
    assert [count * packed_limit(count) <= 64 << 20 for count in (8192, 10_000, 1_000_000, 1 << 40)] == [True] * 4
