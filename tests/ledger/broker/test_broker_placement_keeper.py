"""When the keeper of the placement looks at the whole cluster."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

from ledger.broker.placement.keeper import WHOLE_LOOKS, PlacementKeeper
from ledger.state.placement_table import PlacementTable


def test_new_numbers_of_replicas_are_looked_at_at_once_and_others_seldom() -> None:
    keeper = PlacementKeeper(cast("Any", None), cast("Any", None), lambda: 0.0, replace_after_s=600)
    table = PlacementTable()
    replica = cast("Any", SimpleNamespace(state=SimpleNamespace(placement=table)))

    def has_work() -> bool:
        return keeper._has_work(replica)

    assert not any(has_work() for _ in range(3 * WHOLE_LOOKS)), "nobody wants anything"
    table.set_replicas(4)
    assert [has_work() for _ in range(WHOLE_LOOKS + 1)] == [True, *[False] * (WHOLE_LOOKS - 1), True]
    table.set_replicas(5, shard=2)
    assert [has_work(), has_work()] == [True, False]
    table.set_replicas(0, shard=2)
    assert [has_work(), has_work()] == [True, False]
