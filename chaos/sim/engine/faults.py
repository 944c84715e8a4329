"""Defines every fault kind of the simulator: its name, duration and frequency, and which nodes it can hit.

A fault event is an immutable value. A fault event has a time, a fault kind, and a target in words, which is "leader",
"follower", "any" or the number of a node. When the event happens, the world chooses a node that fits the target. This
way, a schedule of fault events can be drawn before a run, printed, shortened and replayed. Network faults are carried
out by `network_faults.py` in this package. Faults of nodes and disks are carried out by
`chaos/sim/protocol/node_faults.py` and `chaos/sim/stack/faults.py`. Fault kinds with a file of their own name it
(`files`); these files are in `chaos/sim/protocol/faults/` and `chaos/sim/stack/directed/`. To add such a kind, write
the file, and a line in `_KINDS`. Faults of consumers are carried out by `chaos/sim/consumers/consumption.py`, faults of
users and rights by `chaos/sim/access/access_faults.py`.

The fault kinds in `RATES` have no fault events. Each fault kind in `RATES` is a delay or an error rate of the network
that applies to a whole run (`links.Conditions`).
"""

from __future__ import annotations

import math
from collections.abc import Collection
from dataclasses import dataclass
from importlib import import_module
from random import Random
from typing import Any

PROTOCOL, STACK = "protocol", "stack"
BOTH = (PROTOCOL, STACK)

# Every network has a delay. To draw `delay` means to draw a slow network.
RATES = ("delay", "loss", "duplicate", "reorder", "replay")


@dataclass(frozen=True, slots=True)
class FaultEvent:
    """One fault that happens at one time of a run. The docstring of `FaultKind` explains the arguments of an event."""

    at_ms: int
    kind: str
    arguments: tuple[tuple[str, int | str], ...] = ()

    def __getitem__(self, name: str) -> int | str:
        return dict(self.arguments)[name]

    def number(self, name: str, default: int = 0) -> int:
        """Return the integer argument `name` of the event, or `default` if the event does not have this argument."""
        value = dict(self.arguments).get(name, default)
        assert isinstance(value, int), f"{name} of {self} is not a number"
        return value

    @property
    def target(self) -> str:
        """The target of the event in words: "leader", "follower", "any", or the number of a node."""
        return str(dict(self.arguments).get("target", "any"))

    @property
    def for_ms(self) -> int:
        """The duration of the fault in milliseconds, or 0 if the fault has no duration."""
        return self.number("for_ms")

    def __str__(self) -> str:
        return " ".join([f"{self.at_ms:>7} ms  {self.kind}", *(f"{name}={value}" for name, value in self.arguments)])


@dataclass(frozen=True, slots=True)
class FaultKind:
    """One way in which something can fail.

    `for_ms` has the shortest and the longest duration of a fault of this kind; None means that the fault has no
    duration. `target` is True if a fault of this kind hits one node, which is chosen at random from "leader",
    "follower" and "any". `every_ms` is the mean time in milliseconds between two faults of this kind in a run with
    strength 1. Each fault event also has the argument `chance`, a number that determines all other random choices
    about the event.
    """

    name: str
    help: str
    worlds: tuple[str, ...] = BOTH
    for_ms: tuple[int, int] | None = None
    target: bool = True
    every_ms: int = 30_000
    least_nodes: int = 1
    # Smallest number of shards for which this kind is drawn; 0 if the kind does not concern shards.
    least_shards: int = 0
    # The fault loses unflushed data. Under `async` that may be acknowledged data, so worlds restrict it.
    loses_unflushed: bool = False
    # The fault makes a node a suspect, and a node can become a suspect only under `async`.
    needs_async: bool = False
    # The fault loses the data of less than half of three or more nodes, so it can happen under `async` too.
    hits_few: bool = False
    # The fault hits a member of a consumer group, so it needs a run with consumer groups.
    of_consumers: bool = False
    # The fault concerns users and rights, so it needs a run with authentication.
    of_access: bool = False
    # The fault concerns messages with delivery times, so it needs a run that has some.
    of_timed: bool = False
    # Only in runs with transactions.
    of_transactions: bool = False
    # Only in runs with members of a shared group.
    of_shared: bool = False
    # Only in runs with requests.
    of_requests: bool = False
    # The share of the seeds that have the kind, if it is drawn from a random stream of its own. A kind that is added
    # later has one, so that the other choices of all seeds stay. None: it is drawn in turn with the kinds beside it.
    share: float | None = None
    # The classes that carry the kind out if it has files of its own, one for each of its worlds: "module:class". They
    # are imported when a run has the kind.
    files: tuple[str, ...] = ()

    def needs_sync(self, nodes: int) -> bool:
        """Return True if a fault of this kind can happen only under `sync` in a cluster of this size."""
        return self.loses_unflushed and not (self.hits_few and nodes > 2)

    def draw(self, random: Random, at_ms: int) -> FaultEvent:
        arguments: list[tuple[str, int | str]] = []
        if self.target:
            arguments.append(("target", random.choice(("leader", "leader", "follower", "any"))))
        if self.for_ms is not None:
            arguments.append(("for_ms", _spread(random, *self.for_ms)))
        arguments.append(("chance", random.randrange(1 << 16)))
        return FaultEvent(at_ms, self.name, tuple(arguments))


def _spread(random: Random, least: int, most: int) -> int:
    """Draw a duration between `least` and `most` milliseconds, so that each order of magnitude is about equally
    likely."""
    return round(least + math.expm1(random.random() * math.log1p(most - least)))


def _files(named: str, *worlds: str) -> tuple[str, ...]:
    """Return the classes of a kind that has a file of this name in the package for faults of each of these worlds."""
    packages = {PROTOCOL: "chaos.sim.protocol.faults", STACK: "chaos.sim.stack.directed"}
    return tuple(f"{packages[world]}.{named}" for world in worlds)


_KINDS = (
    # the network
    FaultKind("cut_one_way", "the network drops messages in one direction between two nodes", for_ms=(200, 15_000),
              least_nodes=2),
    FaultKind("isolate", "a node can neither send to nor receive from other nodes", for_ms=(200, 15_000),
              least_nodes=2),
    FaultKind("isolate_with_client", "the leader loses contact to the other nodes but clients reach it; its clock may "
              "run slow", for_ms=(500, 10_000), target=False, every_ms=15_000, least_nodes=2),
    FaultKind("deaf", "a node can send to other nodes but receives nothing", for_ms=(200, 15_000), least_nodes=2),
    FaultKind("mute", "a node receives from other nodes but can send nothing", for_ms=(200, 15_000), least_nodes=2),
    FaultKind("halves", "the nodes are split in two parts without contact", for_ms=(200, 15_000), target=False,
              least_nodes=3),
    FaultKind("bridge", "the nodes are split in two halves, and one node has contact to both", for_ms=(200, 15_000),
              target=False, least_nodes=3),
    FaultKind("ring", "each node has contact to a different majority", for_ms=(200, 15_000), target=False,
              least_nodes=4),
    FaultKind("chain", "each node has contact only to its two neighbours", for_ms=(200, 15_000), target=False,
              least_nodes=3),
    FaultKind("clog", "messages from one node to another are delayed until the fault ends", for_ms=(100, 8_000),
              least_nodes=2),
    FaultKind("slow_link", "all messages that a node sends are slow", for_ms=(1_000, 10_000), least_nodes=2),
    # nodes
    FaultKind("kill", "a process is killed and started again", for_ms=(0, 10_000)),
    FaultKind("kill_all", "all processes are killed at once", for_ms=(0, 5_000), target=False, every_ms=90_000),
    FaultKind("power_cut", "a node loses power and its unflushed data", for_ms=(0, 10_000), loses_unflushed=True,
              hits_few=True),
    FaultKind("power_cut_minority", "a minority loses power at once", for_ms=(0, 10_000), target=False, least_nodes=3,
              loses_unflushed=True, hits_few=True),
    FaultKind(
        "power_cut_all", "all nodes lose power at once", for_ms=(0, 5_000), target=False, every_ms=90_000,
        loses_unflushed=True,
    ),
    # these faults wait for a critical moment
    FaultKind("kill_at_vote", "a node is killed; the next node that votes for another is killed just after its vote",
              (PROTOCOL,), for_ms=(0, 2_000), least_nodes=3),
    FaultKind("kill_at_election", "a node is killed; the next elected leader is killed soon after its election",
              (PROTOCOL,), for_ms=(0, 5_000), least_nodes=3),
    FaultKind("power_cut_at_ack", "all nodes lose power just after the next acknowledgement", (PROTOCOL,),
              for_ms=(0, 2_000), target=False, every_ms=60_000, loses_unflushed=True),
    FaultKind("pause", "a process stands still, then does all its pending work at once", for_ms=(50, 8_000)),
    FaultKind("clock_jump", "a node's wall clock jumps forward or back by up to an hour"),
    FaultKind("clock_skew", "a node's clocks run up to a third too fast or too slow", for_ms=(5_000, 60_000)),
    FaultKind("wipe", "a node loses its disk and returns under the same id", every_ms=150_000, least_nodes=3),
    FaultKind("rolling_restart", "one node after the other is restarted", for_ms=(500, 3_000), target=False,
              every_ms=90_000),
    FaultKind("transfer", "an operator hands leadership over to another node", least_nodes=2),
    FaultKind("reconfigure", "an operator removes a node, or adds it again, first as a learner", least_nodes=2),
    # disks
    FaultKind("slow_disk", "every write of a node is slow", for_ms=(1_000, 10_000)),
    FaultKind("full_disk", "a node's disk has no space for entries", for_ms=(200, 10_000)),
    FaultKind("failed_flush", "a flush fails and its data is lost", every_ms=60_000, loses_unflushed=True),
    FaultKind("slow_vote", "saving a vote is slow", for_ms=(1_000, 10_000)),
    FaultKind("lost_rename", "a power cut undoes changes of names that were not synced", (STACK,)),
    FaultKind("torn_write", "a power cut tears writes at units of 512 bytes or 4 KiB", (STACK,)),
    FaultKind("out_of_order", "a power cut keeps later pages and loses earlier ones", (STACK,)),
    FaultKind("read_error", "a read fails with EIO", (STACK,), every_ms=90_000),
    FaultKind("flipped_bit", "a bit of a node's log is flipped", (STACK,), every_ms=120_000, least_nodes=3),
    FaultKind("spoiled_index", "an index or checkpoint is lost or damaged while its node is down", (STACK,)),
    FaultKind("old_file", "a file is replaced by an old copy while its node is down", (STACK,), every_ms=120_000,
              least_nodes=3),
    FaultKind("log_start", "the start of a log is moved up (trim)", (STACK,), target=False),
    FaultKind("flipped_base", "a bit is flipped in a stored or arriving snapshot", (STACK,)),
    FaultKind("corrupt_in_transit", "bits flip in entries and snapshots that a node sends", (STACK,),
              for_ms=(2_000, 20_000), least_nodes=2),
    # operations on shards and topics
    FaultKind("add_group", "an operator adds a shard", (STACK,), target=False, every_ms=15_000, least_shards=2),
    FaultKind("alter_topic", "an operator gives a topic more queues", (STACK,), target=False, least_shards=1),
    # consumer groups
    FaultKind("member_join", "a consumer group gets a new member", (STACK,), target=False, every_ms=20_000,
              of_consumers=True),
    FaultKind("member_leave", "a member leaves its consumer group", (STACK,), target=False, of_consumers=True),
    FaultKind("member_crash", "a member's process ends and another member replaces it", (STACK,), for_ms=(0, 10_000),
              target=False, every_ms=20_000, of_consumers=True),
    FaultKind("member_pause", "a member stands still, perhaps longer than its session timeout", (STACK,),
              for_ms=(500, 15_000), target=False, every_ms=20_000, of_consumers=True),
    FaultKind("member_cut", "the network cuts a member off from all nodes", (STACK,), for_ms=(500, 15_000),
              target=False, every_ms=20_000, of_consumers=True),
    FaultKind("offsets_reset", "an operator moves a consumer group's offsets back or forward", (STACK,), target=False,
              of_consumers=True),
    # users and rights
    FaultKind("old_rules", "a node is cut off from the other nodes, clients reach it, and a user loses its rights",
              (STACK,), for_ms=(40_000, 110_000), target=False, every_ms=60_000, least_nodes=3, of_access=True),
    FaultKind("stale_rules", "old_rules, and the user loses its rights at once", (STACK,), for_ms=(80_000, 120_000),
              target=False, every_ms=60_000, least_nodes=3, of_access=True, share=0.4),
    FaultKind("right_lost_waiting", "a user waits for messages at a node that is cut off, and loses its rights",
              (STACK,), for_ms=(4_000, 12_000), target=False, every_ms=20_000, least_nodes=3, of_access=True,
              share=0.4),
    FaultKind("topic_unseen", "a user that sends does not see the topics any more, and then sees them again", (STACK,),
              for_ms=(33_000, 50_000), target=False, every_ms=40_000, of_access=True, share=0.4),
    FaultKind("grant_cut_off", "the leader of shard 0 is cut off, and is asked to grant a right", (STACK,),
              for_ms=(4_000, 12_000), target=False, every_ms=20_000, least_nodes=3, of_access=True, share=0.4),
    # with files of their own
    FaultKind("mute_followers", "a leader hears its followers, but not their acknowledgements",
              for_ms=(45_000, 90_000), target=False, every_ms=90_000, least_nodes=2, share=0.1,
              files=(*_files("mute_followers:MuteFollowers", PROTOCOL),
                     *_files("mute_followers:StackMuteFollowers", STACK))),
    FaultKind("no_room", "a node's disk is nearly full, so it takes no new data of clients",
              for_ms=(10_000, 40_000), every_ms=20_000, share=0.1,
              files=(*_files("no_room:NoRoom", PROTOCOL), *_files("no_room:StackNoRoom", STACK))),
    FaultKind("clock_leap", "a node's clock leaps by a day to 400 days, and is set right again",
              for_ms=(5_000, 60_000), every_ms=30_000, least_nodes=2, share=0.1,
              files=(*_files("clock_leap:ClockLeap", PROTOCOL), *_files("clock_leap:StackClockLeap", STACK))),
    FaultKind("put_back_disk", "disks are replaced by older copies of themselves", (PROTOCOL,), for_ms=(2_000, 15_000),
              target=False, every_ms=60_000, least_nodes=2, share=0.1,
              files=_files("put_back_disk:PutBackDisk", PROTOCOL)),
    FaultKind("lying_flush", "a disk reports a flush that it has not done, and its node loses power", (PROTOCOL,),
              every_ms=20_000, least_nodes=2, share=0.1, loses_unflushed=True,
              files=_files("lying_flush:LyingFlush", PROTOCOL)),
    FaultKind("cut_after_timeout_now", "a leader hands over, and is cut off when its successor hears so", (PROTOCOL,),
              for_ms=(2_000, 10_000), target=False, every_ms=10_000, least_nodes=3, share=0.1,
              files=_files("cut_after_timeout_now:CutAfterTimeoutNow", PROTOCOL)),
    FaultKind("vote_saved_again", "requests for votes arrive again, at voters that have saved this vote", (PROTOCOL,),
              for_ms=(500, 10_000), target=False, every_ms=15_000, least_nodes=2, share=0.1,
              files=_files("vote_saved_again:VoteSavedAgain", PROTOCOL)),
    FaultKind("answers_before_loss", "a follower loses power, and its earlier answers arrive after the leader knows",
              (PROTOCOL,), for_ms=(1_000, 6_000), target=False, every_ms=12_000, least_nodes=3, share=0.1,
              needs_async=True, files=_files("answers_before_loss:AnswersBeforeLoss", PROTOCOL)),
    FaultKind("configuration_at_tail", "a node loses power while its last entry is a configuration", (STACK,),
              target=False, every_ms=15_000, least_nodes=3, share=0.15,
              files=_files("configuration_at_tail:ConfigurationAtTail", STACK)),
    FaultKind("move_while_claimed", "a message is moved while its queue is being claimed or reset", (STACK,),
              for_ms=(6_000, 14_000), target=False, every_ms=8_000, of_consumers=True, share=0.15,
              files=_files("move_while_claimed:MoveWhileClaimed", STACK)),
    FaultKind("half_write", "a write of entries fails in the middle, for lack of space", (STACK,),
              every_ms=10_000, share=0.15,
              files=_files("half_write:HalfWrite", STACK)),
    FaultKind("half_vote", "a follower must stand for election, and dies in a save of its vote", (STACK,),
              for_ms=(0, 5_000), target=False, every_ms=10_000, least_nodes=3, share=0.15,
              files=_files("half_vote:HalfVote", STACK)),
    FaultKind("end_lost", "a cut-off leader stops in order, and then its last entry is lost", (STACK,),
              for_ms=(1_000, 6_000), target=False, every_ms=20_000, least_nodes=3, share=0.15,
              files=_files("end_lost:EndLost", STACK)),
    FaultKind("repair_from_lagging", "a damaged follower repairs its log from a node that lacks its end", (STACK,),
              for_ms=(2_000, 8_000), target=False, every_ms=20_000, least_nodes=3, share=0.15,
              files=_files("repair_from_lagging:RepairFromLagging", STACK)),
    FaultKind("repair_other_entry", "an entry that no other node has is damaged, before others of them", (STACK,),
              for_ms=(2_000, 8_000), target=False, every_ms=25_000, least_nodes=3, share=0.15,
              files=_files("repair_other_entry:RepairOtherEntry", STACK)),
    FaultKind("repair_other_chain", "a log with entries that no other node has is damaged before them", (STACK,),
              for_ms=(2_000, 8_000), target=False, every_ms=25_000, least_nodes=3, share=0.15,
              files=_files("repair_other_chain:RepairOtherChain", STACK)),
    FaultKind("snapshot_over_longer", "a cut-off leader gets a snapshot, and its own log is longer", (STACK,),
              target=False, every_ms=20_000, least_nodes=3, share=0.15,
              files=_files("snapshot_over_longer:SnapshotOverLonger", STACK)),
    FaultKind("leader_ends_at_due", "a leader dies when messages are due, or in the middle of a turn", (STACK,),
              for_ms=(200, 6_000), target=False, every_ms=10_000, of_timed=True, share=0.4,
              files=_files("leader_ends_at_due:LeaderEndsAtDue", STACK)),
    FaultKind("target_deleted", "a topic is deleted while messages wait for their delivery to it", (STACK,),
              target=False, every_ms=15_000, of_timed=True, share=0.2,
              files=_files("target_deleted:TargetDeleted", STACK)),
    FaultKind("turn_end_held_back", "a leader delivers messages of a turn, and dies before the turn ends", (STACK,),
              for_ms=(200, 6_000), target=False, every_ms=10_000, of_timed=True, share=0.2,
              files=_files("turn_end_held_back:TurnEndHeldBack", STACK)),
    FaultKind("clocks_go_back", "the clocks of most nodes are some seconds ahead, and are set right", (STACK,),
              for_ms=(500, 6_000), target=False, every_ms=12_000, of_timed=True, share=0.15,
              files=_files("clocks_go_back:ClocksGoBack", STACK)),
    FaultKind("leader_ends_in_transaction", "a leader dies between the half batches and the end of a transaction",
              (STACK,), for_ms=(200, 6_000), target=False, every_ms=10_000, of_transactions=True, share=0.4,
              files=_files("leader_ends_in_transaction:LeaderEndsInTransaction", STACK)),
    FaultKind("leader_ends_under_leases", "a leader dies when it has leased messages of a shared group",
              (STACK,), for_ms=(200, 6_000), target=False, every_ms=10_000, of_shared=True, share=0.4,
              files=_files("leader_ends_under_leases:LeaderEndsUnderLeases", STACK)),
    FaultKind("clocks_leap_under_leases", "the clocks of most nodes leap under leases, and leaders die",
              (STACK,), for_ms=(5_000, 9_000), target=False, every_ms=15_000, of_shared=True, share=0.2,
              files=_files("clocks_leap_under_leases:ClocksLeapUnderLeases", STACK)),
    FaultKind("responder_ends", "a responder dies with a request in hand, or when its handler has answered",
              (STACK,), for_ms=(200, 6_000), target=False, every_ms=8_000, of_requests=True, share=0.5),
    FaultKind("two_learners", "an operator adds two nodes as learners at once", (STACK,), target=False,
              every_ms=15_000, least_nodes=2, share=0.15, files=_files("two_learners:TwoLearners", STACK)),
    FaultKind("move_replicas", "an operator drains nodes and balances replicas; lost replicas are replaced",
              (STACK,), target=False, every_ms=6_000, least_nodes=3, least_shards=2, share=0.25,
              files=_files("replica_moves:ReplicaMoves", STACK)),
    FaultKind("coordinator_moved", "an operator moves the coordinator of a consumer group to another shard", (STACK,),
              target=False, every_ms=8_000, least_shards=2, of_consumers=True, share=0.3,
              files=_files("coordinator_moved:CoordinatorMoved", STACK)),
    FaultKind("pin_leader", "an operator pins a voter as the leader of a shard, or removes the pin", (STACK,),
              target=False, every_ms=8_000, least_nodes=2, share=0.2, files=_files("pin_leader:PinFault", STACK)),
    FaultKind("back_up", "an operator makes a backup; some backups are killed, and the next one continues", (STACK,),
              target=False, every_ms=10_000, share=0.2, files=_files("back_up:BackUp", STACK)),
    FaultKind("mirror_topics", "an operator mirrors topics; most mirrors are killed, and the next one continues",
              (STACK,), target=False, every_ms=10_000, share=0.15, files=_files("mirror_topics:MirrorTopics", STACK)),
)  # fmt: skip

KINDS: dict[str, FaultKind] = {kind.name: kind for kind in _KINDS}


def kinds_of(world: str, nodes: int, shards: int = 1) -> list[FaultKind]:
    """Return the fault kinds of a world that apply to a cluster with this number of nodes and shards."""
    return [
        kind for kind in _KINDS if world in kind.worlds and nodes >= kind.least_nodes and shards >= kind.least_shards
    ]


def classes_of(world: str, names: Collection[str]) -> list[type[Any]]:
    """Return the classes that carry out those of these fault kinds that have files of their own in this world."""
    found = []
    for kind in _KINDS:
        for file in kind.files if kind.name in names else ():
            module, name = file.split(":")
            if module.startswith(f"chaos.sim.{world}."):
                found.append(getattr(import_module(module), name))
    return found
