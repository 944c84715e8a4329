"""The fault `half_vote`: a follower is made to stand for election, and its process dies in the middle of saving its own
vote.

The vote before it must still be in the vote file, so that the follower starts and votes no second time in a term.
"""

from __future__ import annotations

import contextlib

from chaos.sim.engine.faults import FaultEvent
from chaos.sim.engine.targets import chance_of
from chaos.sim.stack.directed.directed_fault import DirectedFault
from chaos.sim.stack.node import StackNode
from chaos.sim.stack.node_part import directory_of
from raft.core import Refusal
from raft.driver import Driver
from store import StoreError

# How many writes a save makes.
WRITES_OF_A_SAVE = 3
# How long after the handover the follower may save its vote, in seconds.
WAIT_S = 2.0


class HalfVote(DirectedFault):
    kind = "half_vote"

    def fire(self, event: FaultEvent, shard: int, node: StackNode) -> bool:
        leader, power = self.tools.leader(shard), self.tools.power
        replica = leader.part(shard).replica if leader is not None else None
        voters = self.tools.rosters.of(shard).voters
        followers = [each for each in voters if each is not leader and power.may_miss(each) and power.may_kill(each)]
        if leader is None or leader.process is None or replica is None or not followers:
            return False
        random = chance_of(event)
        follower = random.choice(followers)
        power.kills(follower)
        died = follower.disk.faults["killed in a write"]
        follower.disk.die_in_write(random.randint(1, WRITES_OF_A_SAVE), below=directory_of(shard) / "vote")
        leader.process.life.deliver(_hand_over, replica.driver, follower.node)
        self.tools.loop.call_later(WAIT_S + event.for_ms / 1000, self._start_again, follower, died)
        return False  # counted when the process has died in the save

    def _start_again(self, follower: StackNode, died: int) -> None:
        self.tools.happened[self.kind] += follower.disk.faults["killed in a write"] > died
        follower.disk.die_in_write(0)  # if it saved no vote
        follower.start_again()


def _hand_over(driver: Driver, to: int) -> None:
    with contextlib.suppress(Refusal, StoreError):
        driver.transfer(to)
