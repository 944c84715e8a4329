"""Adds the commands `ledgermq chaos` and `ledgermq sim` to the command line, which finds them through the entry point
group `ledgermq.commands`.

The command line imports this module each time it lists its commands, so this module imports nothing heavy.
"""

from __future__ import annotations

from cluster.cli import CommandEntry

CHAOS = CommandEntry("chaos.live.command", "chaos", "Run faults against a cluster under load, and check the result.")
SIM = CommandEntry("chaos.sim.campaign.command", "sim", "Simulate whole clusters from seeds, and try to break them.")
