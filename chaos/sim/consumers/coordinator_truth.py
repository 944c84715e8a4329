"""Checks that the epochs of a consumer group rise from each of its coordinators to the next, in the applied states.

Shard 0 places the coordinator of a group. Each decision for a group counts one more than the decision before it, and
the shard that it names notes this number in its own log. All epochs that were given under a number must be larger than
all epochs that were given under smaller numbers, also if a coordinator that was replaced still gives epochs. Otherwise
the shards of the queues would refuse the members of the present coordinator.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

from ledger.state import State
from ledger.topics import TOPICS_SHARD
from ledger.v1 import command_pb2

_GIVES = ("assign_queues", "release_queues", "leave_consumer_group", "join_consumer_group", "renew_queues")


class CoordinatorTruth:
    """Follows the coordinators of all groups. `fail(invariant, what)` records a violation."""

    def __init__(self, fail: Callable[[str, str], None]) -> None:
        self._fail = fail
        # Group -> the number of the newest decision, and the index of its entry in shard 0.
        self._decided: dict[str, tuple[int, int]] = {}
        # (shard, group) -> the number under which the shard coordinates the group.
        self._numbers: dict[tuple[int, str], int] = {}
        # (group, number) -> the smallest and the largest epoch that was given under this number.
        self._epochs: dict[tuple[str, int], tuple[int, int]] = {}
        # (shard, group) -> the epochs of all owners after the last command.
        self._owned: dict[tuple[int, str], set[int]] = {}
        self.counts: Counter[str] = Counter()

    def applied(self, shard: int, index: int, command: command_pb2.Command, state: State) -> None:
        """Judge a command that the first node of the shard has applied."""
        kind = command.WhichOneof("command")
        match kind:
            case "place_coordinator":
                self._placed(command.place_coordinator.consumer_group, index, state)
            case "host_group":
                hosted = command.host_group
                before = self._numbers.get((shard, hosted.consumer_group), 0)
                self._numbers[shard, hosted.consumer_group] = max(before, hosted.number)
            case _ if kind in _GIVES:
                self._gave(shard, str(getattr(command, kind).consumer_group), state)

    def _placed(self, name: str, index: int, state: State) -> None:
        place = state.coordinators.get(name)
        if place is None or place.placed_at != index:
            return  # the group stays where it is
        number = self._decided.get(name, (0, 0))[0] + 1
        self._decided[name] = (number, index)
        if place.number != number:
            self._fail("epochs rise with each coordinator", f"{name} has the number {place.number}, and not {number}")
        if place.shard == TOPICS_SHARD:
            self._numbers[TOPICS_SHARD, name] = number
        self.counts["coordinator_moves" if number > 1 else "coordinators_placed"] += 1

    def _gave(self, shard: int, name: str, state: State) -> None:
        group = state.consumption.groups.get(name)
        owned = {share.epoch for share in group.shares.values() if share.owner} if group is not None else set()
        epochs, self._owned[shard, name] = owned - self._owned.get((shard, name), set()), owned
        if not epochs:
            return
        number = self._numbers.get((shard, name), 0)
        least, most = self._epochs.get((name, number), (min(epochs), max(epochs)))
        least, most = self._epochs[name, number] = (min(least, *epochs), max(most, *epochs))
        for (other, at), (first, last) in self._epochs.items():
            if other == name and ((at < number and last >= least) or (at > number and first <= most)):
                self._fail(
                    "epochs rise with each coordinator",
                    f"shard {shard} gave {name} the epochs {least} to {most} under number {number}, and there were "
                    f"{first} to {last} under number {at}",
                )
