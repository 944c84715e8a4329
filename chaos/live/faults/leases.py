"""The fault that kills nodes while messages of shared groups are leased."""

from __future__ import annotations

from collections.abc import Sequence

from chaos.live.faults.fault import FaultSite, NoEvidenceError
from chaos.live.faults.processes import Kill
from ledger.words import counted

# The leases are counted so often, so long one after the other, until there are some.
_ATTEMPTS, _AGAIN_S = 10, 0.3


class KillUnderLeases(Kill):
    """The targets are killed with SIGKILL while messages are leased, and started again later."""

    def strike(self, site: FaultSite, targets: Sequence[int]) -> str:
        for _ in range(_ATTEMPTS):
            if leased := site.members.leased_messages():
                killed = super().strike(site, targets)
                return (
                    f"{killed}; {counted(leased, 'message')} of shared groups {'was' if leased == 1 else 'were'} leased"
                )
            site.wait(_AGAIN_S)
        raise NoEvidenceError("no message of a shared group was leased")
