"""What the command line finds here, by the entry points of shard `ledgermq.commands`. Loads nothing."""

from __future__ import annotations

from cluster.cli import CommandEntry

CHAOS = CommandEntry("chaos.live.command", "chaos", "Run faults against a cluster under load, and judge it.")
SIM = CommandEntry("chaos.sim.campaign.command", "sim", "Simulate whole clusters from seeds, and try to break them.")
