"""All fault kinds of the protocol world that have a promise of their own."""

from __future__ import annotations

from chaos.sim.protocol.faults.clock_leap import ClockLeap
from chaos.sim.protocol.faults.mute_followers import MuteFollowers
from chaos.sim.protocol.faults.no_room import NoRoom
from chaos.sim.protocol.faults.promised_fault import PromisedFault
from chaos.sim.protocol.faults.put_back_disk import PutBackDisk

PROMISED_FAULTS: tuple[type[PromisedFault], ...] = (MuteFollowers, NoRoom, ClockLeap, PutBackDisk)
