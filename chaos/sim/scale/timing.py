"""The times and rates of the model: the defaults of the product's settings."""

from __future__ import annotations

from cluster.node.process.ticker import stride_of
from cluster.node.settings import NodeSettings
from raft.core import RaftTiming


def _default(setting: str) -> int:
    value = NodeSettings.model_fields[setting].default
    assert isinstance(value, int)
    return value


TICK_MS = _default("tick_ms")
TIMING = RaftTiming(_default("heartbeat_ticks"), _default("election_ticks"))
STRIDE = stride_of(TIMING.heartbeat_ticks, TIMING.election_ticks)
REPLACE_AFTER_S = _default("replace_after_ms") / 1000
CATCH_UP_BYTES_PER_S = _default("catch_up_bytes_per_s")
# A node wakes once in this time, and ticks STRIDE times.
WAKE_S = TICK_MS * STRIDE / 1000
