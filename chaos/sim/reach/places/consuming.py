"""Places of consumer groups, fencing, moved messages, tags, producers, message ids, and feature levels."""

from __future__ import annotations

from chaos.sim.reach.place import RARE, Place

PROGRESS, CLAIMS = "ledger.state.progress_table:ProgressTable", "ledger.broker.consumer_groups.claims:QueueClaims"
PART = "ledger.broker.fetch.tag_filter:WantedPart"
GROUP = "ledger.state.consumer_group_table:ConsumerGroup"
SEQUENCE = "ledger.state.sequence:Sequence"
COORDINATOR = "ledger.broker.consumer_groups.coordinator:Coordinator"

# fmt: off
PLACES = (
    Place("fencing: a claim has an older epoch than the last claim", f"{PROGRESS}.claim", "raise _fenced", stack=RARE),
    Place("fencing: a claim fences an earlier epoch", f"{PROGRESS}.claim", "progress.epoch = epoch",
          "progress.epoch < epoch", stack=50),
    Place("fencing: a request has an older epoch", f"{PROGRESS}._owned", "raise _fenced",
          "progress is not None and epoch < progress.epoch", stack=500),
    Place("fencing: a request has a newer epoch than any claim", f"{PROGRESS}._owned", "raise _fenced",
          "progress is not None and epoch > progress.epoch", stack=RARE),
    Place("fencing: a request is from before a reset", f"{PROGRESS}._owned", "raise _fenced",
          "progress is not None and epoch == progress.epoch and resets != progress.resets", stack=500),

    Place("move: to a retry topic", f"{CLAIMS}.move", "future =", "not wanted.give_up", stack=200),
    Place("move: to the dead letters", f"{CLAIMS}.move", "future =", "wanted.give_up", stack=200),
    Place("move: refused, because the queue is being claimed", f"{CLAIMS}.move", "raise BusyError", stack=2000),
    Place("move: asked for again while it is under way", f"{CLAIMS}.move", "return moving", stack=RARE),
    Place("move: asked for again after it was made", f"{CLAIMS}.move", "return None", stack=500),
    Place("move: another move of the queue is under way", f"{CLAIMS}.move", "progress =", "others > 0", stack=200),
    Place("move: settles a message behind one that is not finished", f"{PROGRESS}.settle", "insort(",
          "offset > progress.offset", stack=200),
    Place("move: an offset passes settled messages", f"{PROGRESS}._advance", "del settled", "passed > 0", stack=200),
    Place("move: a reset forgets settled messages", f"{PROGRESS}.reset", "progress.offset, progress.settled =",
          "progress.settled", stack=500),

    Place("group: a silent member is removed", f"{COORDINATOR}._give_up", stack=50),
    Place("group: silent members stay, because the leader cannot write", f"{COORDINATOR}._try",
          'log.info("consumer group', "isinstance(command, LeaveConsumerGroup)", stack=500),
    Place("coordinator: the members of a moved group are removed", f"{COORDINATOR}.close_moved", "log.info(",
          stack=RARE),
    Place("coordinator: a node does not know yet where a group was placed", f"{COORDINATOR}._was_moved",
          "return False", "first is not None", stack=RARE),
    Place("coordinator: a join waits until its node knows the place", f"{COORDINATOR}.host",
          "await asyncio.sleep(_LOOK_S)", stack=RARE),
    Place("coordinator: a join is refused, because the group was moved before it was applied",
          "ledger.state.machine:State.check_coordinates", "raise elsewhere(", stack=RARE),
    Place("group: another node becomes the coordinator", f"{COORDINATOR}._begin", "", "term > 0", stack=20),
    Place("group: members change while an assignment is computed", f"{COORDINATOR}._assigned", "return False",
          stack=RARE),
    Place("group: members change while an assignment is committed", f"{COORDINATOR}._commit", "return False",
          stack=200),
    Place("group: a member waits for a queue that another member owns", f"{GROUP}._aim",
          "self.members[share.owner].version = index", "target != share.owner", stack=50),
    Place("group: a queue goes back to its owner before it was released", f"{GROUP}._aim",
          "self.members[share.owner].version = index", "target == share.owner", stack=2000),
    Place("group: a released queue gets its next owner", f"{GROUP}.release", "self._give(queue", stack=50),
    Place("group: a removed member's queue gets its next owner", f"{GROUP}.leave", "self._give(queue", stack=200),
    Place("group: the owner of a queue keeps it in a new assignment", f"{GROUP}._aim", "was, share.target =",
          "target and share.owner == target", stack=2000),

    Place("tags: a node cuts a batch", f"{PART}.cut", "return part if",
          "len(part) + MIN_SAVED_BYTES <= len(self.body)", stack=500),

    Place("producer: a batch is a repeat", f"{SEQUENCE}.check", "return Duplicate(record)", protocol=30, stack=30),
    Place("producer: the result of a repeat is not remembered any more", f"{SEQUENCE}.check", "return Forgotten",
          protocol=100, stack=RARE),
    Place("producer: a batch leaves a gap", f"{SEQUENCE}.check", "return SequenceGap", protocol=50, stack=200),

    Place("message ids: the first send of an id is under way", "ledger.broker.produce.id_admission:check_ids",
          "raise BusyError", stack=RARE),
    Place("message ids: all messages of a batch are known", "ledger.broker.produce.id_admission:check_ids",
          "repeats =", "len(known) == len(ids)", stack=RARE),
    Place("message ids: some messages of a batch are known", "ledger.broker.produce.id_admission:check_ids",
          "repeats =", "len(known) < len(ids)", stack=RARE),

    Place("level: a feature level is raised", "ledger.state.machine:State._raise_feature_level",
          "self.feature_level = max", "level > self.feature_level", stack=30),
)
# fmt: on
