"""The fault `repair_other_entry`: a leader that was cut off has entries that no other node has. It is killed, and the
first of these entries is damaged.

The other nodes have committed another entry with this index. The next entry of the damaged log has the index that would
follow it, but another chain. The repair must not take the other entry for the one that was lost.
"""

from __future__ import annotations

from chaos.sim.stack.directed.repair_other_chain import RepairOtherChain


class RepairOtherEntry(RepairOtherChain):
    kind = "repair_other_entry"
    behind_commit = 1
