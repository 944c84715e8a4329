"""send_table: rows of tables become messages, over real gRPC with a fake node."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas
import pyarrow
import pytest

import ledgermq
from ledger.errors import BusyError, InvalidArgumentError, MessageTooLargeError
from ledger.hashing import queue_of
from tests.ledger.client.fake_broker import FakeCluster
from tests.ledger.client.test_client_send_many import check_indexes, stored

pytestmark = pytest.mark.real

KEYS = [f"key {number % 50}" for number in range(5_000)]
VALUES = [f"value {number}" for number in range(5_000)]
PAIRS = [(key.encode(), value.encode()) for key, value in zip(KEYS, VALUES, strict=True)]

FORMS: dict[str, Callable[[], Any]] = {
    "table": lambda: pyarrow.table({"k": KEYS, "v": VALUES}),
    "chunks": lambda: pyarrow.concat_tables([pyarrow.table({"k": KEYS[:9], "v": VALUES[:9]})] * 1).slice(0),
    "arrow": lambda: {"k": pyarrow.array(KEYS).dictionary_encode(), "v": pyarrow.array(VALUES, pyarrow.large_string())},
    "numpy": lambda: {"k": np.array(KEYS), "v": np.array(VALUES).astype("S")},
    "lists": lambda: {"k": KEYS, "v": [value.encode() for value in VALUES]},
}


def producer(cluster: FakeCluster, **settings: Any) -> ledgermq.AsyncProducer:
    return ledgermq.AsyncProducer(list(cluster.addresses.values()), **settings)


@pytest.mark.parametrize("form", FORMS)
async def test_rows_go_to_the_queues_of_their_keys_in_order(cluster: FakeCluster, form: str) -> None:
    table = FORMS[form]()
    pairs = PAIRS[: len(table["k"])]
    async with producer(cluster, batch_bytes=8192) as one:
        ranges = await one.send_table("wide", table, value="v", key="k")
    for queue in range(3):
        assert stored(cluster, "wide", queue) == [pair for pair in pairs if queue_of(pair[0], 3) == queue]
    check_indexes(cluster, ranges, [value for _, value in pairs])


async def test_rows_without_keys_are_spread_and_those_with_a_queue_are_not(cluster: FakeCluster) -> None:
    async with producer(cluster, batch_bytes=8192) as one:
        ranges = await one.send_table("wide", {"v": VALUES}, value="v")
        assert {each.queue for each in ranges} == {0, 1, 2}
        check_indexes(cluster, ranges, [value.encode() for value in VALUES])
        ranges = await one.send_table("wide", {"v": VALUES, "k": KEYS}, value="v", key="k", queue=2)
        assert {each.queue for each in ranges} == {2}
        ranges = await one.send_table("wide", {"v": ["a", "b"], "k": [None, "x"]}, value="v", key="k")
        check_indexes(cluster, ranges, [b"a", b"b"])
        assert await one.send_table("wide", {"v": []}, value="v") == []


async def test_order_survives_trouble_and_other_sends(cluster: FakeCluster) -> None:
    async with producer(cluster, batch_bytes=1000, retry_backoff_ms=1) as one:
        before = [one.send_nowait("t", b"before") for _ in range(3)]
        cluster.troubles = ["lose", BusyError("busy"), "ok", "lose"]
        sending = one.send_table("t", {"v": VALUES}, value="v", queue=0)
        await sending
        await one.send("t", b"after")
        for future in before:
            await future
    assert cluster.values("t", 0) == [b"before"] * 3 + [value.encode() for value in VALUES] + [b"after"]


async def test_a_selector_and_a_history_see_each_row(cluster: FakeCluster, tmp_path: Path) -> None:
    async with producer(
        cluster,
        queue_selector=lambda message, queues: len(message.value) % queues,
        history=tmp_path / "history.jsonl",
    ) as one:
        await one.send_table("wide", {"v": ["a", "bb", "ccc"], "k": ["x"] * 3}, value="v", key="k")
    assert [cluster.values("wide", queue) for queue in range(3)] == [[b"ccc"], [b"a"], [b"bb"]]
    assert (tmp_path / "history.jsonl").read_text().count('"send"') == 3


@pytest.mark.parametrize(
    ("table", "error"),
    [
        ({"other": ["a"]}, InvalidArgumentError),
        ({"v": [1, 2]}, InvalidArgumentError),
        ({"v": ["a", None]}, InvalidArgumentError),
        ({"v": pyarrow.array(["a", None])}, InvalidArgumentError),
        ({"v": pyarrow.array([[1], [2]])}, InvalidArgumentError),
        (pyarrow.table({"v": [1.5]}), InvalidArgumentError),
        (pyarrow.table({"w": ["a"]}), InvalidArgumentError),
        ({"v": ["a"], "k": ["x", "y"]}, InvalidArgumentError),
        ({"v": [bytes(10_001)]}, MessageTooLargeError),
    ],
)
async def test_a_wrong_table_is_refused(cluster: FakeCluster, table: Any, error: type[Exception]) -> None:
    async with producer(cluster) as one:
        await one.send("wide", b"first", queue=0)
        with pytest.raises(error):
            await one.send_table(
                "wide", table, value="v", key="k" if "k" in dict.fromkeys(getattr(table, "keys", list)()) else None
            )
    assert cluster.appends == 1


@pytest.mark.parametrize("wrong", [5, None, b"rows", "rows", [{"v": "a"}], pyarrow.array(["a"]), np.zeros(2)])
async def test_a_value_that_is_no_table_is_shown(cluster: FakeCluster, wrong: Any) -> None:
    async with producer(cluster) as one:
        with pytest.raises(InvalidArgumentError, match=r"^table is of type \w+: give a pyarrow\.Table, or a mapping"):
            await one.send_table("wide", wrong, value="v")


@pytest.mark.parametrize(
    "column",
    ["abc", b"abc", 5, {"a": "b"}, pandas.DataFrame([["a", "b"]], columns=["v", "v"])],
    ids=lambda c: type(c).__name__,
)
async def test_a_column_that_is_none_is_refused(cluster: FakeCluster, column: Any) -> None:
    table = column if isinstance(column, pandas.DataFrame) else {"v": column}
    async with producer(cluster) as one:
        with pytest.raises(InvalidArgumentError, match=r'^Column "v" is of type \w+: give an Arrow array'):
            await one.send_table("wide", table, value="v")


async def test_two_columns_of_one_name_are_told(cluster: FakeCluster) -> None:
    table = pyarrow.table([["a"], ["b"]], names=["v", "v"])
    async with producer(cluster) as one:
        with pytest.raises(InvalidArgumentError, match=r"^The table has 2 columns 'v'\.$"):
            await one.send_table("wide", table, value="v")


@pytest.mark.parametrize("missing", [None, float("nan"), pandas.NA])
async def test_a_cell_without_a_value_in_pandas_is_no_key(cluster: FakeCluster, missing: Any) -> None:
    frame = pandas.DataFrame({"v": ["a", "b"], "k": pandas.Series(["x", missing], dtype=object)})
    async with producer(cluster) as one:
        ranges = await one.send_table("wide", frame, value="v", key="k")
        assert sum(each.count for each in ranges) == 2
        with pytest.raises(InvalidArgumentError, match=r'^Column "k" has no value in row 1: a message needs one\.$'):
            await one.send_table("wide", frame, value="k")


async def test_a_wrong_queue_is_refused_and_takes_no_room(cluster: FakeCluster) -> None:
    async with producer(cluster) as one:
        with pytest.raises(InvalidArgumentError, match=r"^A message's queue must be a number from 0; it is '1'\.$"):
            await one.send_table("wide", {"v": ["a"]}, value="v", queue="1")  # type: ignore[arg-type]
        assert one._buffer.used == 0


async def test_a_field_that_an_array_of_records_does_not_have_is_named(cluster: FakeCluster) -> None:
    records = np.array([(b"a",)], dtype=[("v", "S1")])
    async with producer(cluster) as one:
        with pytest.raises(InvalidArgumentError, match=r"^The table has no column 'w'\.$"):
            await one.send_table("wide", records, value="w")
        assert [each.count for each in await one.send_table("wide", records, value="v")] == [1]
