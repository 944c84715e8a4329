"""Places of recovery, checkpoints, votes and writes."""

from __future__ import annotations

from chaos.sim.reach.place import RARE, Place

RECOVERY, SHARD_LOG = "store.log.recovery:Recovery", "cluster.node.replica.shard_log:ShardLog"
WRITES, VOTES = "store.log.entry_writes:EntryWrites", "store.directory.vote_file:VoteFile"
SNAPSHOTS, CHECKPOINTS = "store.snapshot.snapshots:Snapshots", "cluster.node.replica.checkpoints:Checkpoints"

# fmt: off
PLACES = (
    Place("recovery: after an orderly stop", f"{RECOVERY}.after_stop", stack=50),
    Place("recovery: after a kill", f"{RECOVERY}.after_kill", stack=20),
    Place("recovery: after a power loss", f"{RECOVERY}.after_crash", stack=30),
    Place("recovery: a torn entry ends the log", f"{RECOVERY}.after_crash", "reason = str(torn)", stack=50),
    Place("recovery: bytes without an entry are behind the log", f"{RECOVERY}.after_crash", 'reason = "there are bytes',
          stack=50),
    Place("recovery: the power loss left no trace", f"{RECOVERY}.after_crash", "self._cut_behind_tail()", "not reason",
          stack=30),
    Place("recovery: continues behind a checkpoint", f"{RECOVERY}._go_on_from", "self.positions = known.positions",
          stack=30),
    Place("recovery: believes the checkpoint of a damaged log", f"{RECOVERY}._go_on_from",
          "self.tail, self.positions = known.tail", stack=RARE),
    Place("recovery: a known segment is missing", f"{RECOVERY}._go_on_from", "raise LogDamagedError", stack=RARE),
    Place("recovery: a known entry is damaged", f"{RECOVERY}._verified", "raise LogDamagedError", stack=RARE),
    Place("recovery: finds damage", f"{RECOVERY}._read_segment", "raise self._damage", stack=2000),
    Place("recovery: finds an entry of another version", f"{RECOVERY}._damage", "return kind(", "is_foreign",
          stack=RARE),
    Place("recovery: the log ends before its checkpoint", f"{RECOVERY}._read", "raise LogDamagedError", stack=2000),
    Place("recovery: the log ends elsewhere than at the orderly stop", f"{RECOVERY}._compare", "raise LogDamagedError",
          stack=2000),
    Place("recovery: nothing acknowledged can be lost in sync mode", f"{SHARD_LOG}._remember_loss", "return",
          stack=50),
    Place("recovery: the node becomes a suspect in async mode", f"{SHARD_LOG}._remember_loss", "found = Suspect(",
          "flush != 'sync'", stack=200),
    Place("recovery: the node becomes a suspect in sync mode", f"{SHARD_LOG}._remember_loss", "found = Suspect(",
          "flush == 'sync'", stack=200),
    Place("recovery: a suspect becomes a suspect again", "store.directory.shard_marks:ShardMarks.mark_suspect",
          "mark = suspect if", "before is not None", stack=500),

    Place("checkpoint: a start continues from it", f"{CHECKPOINTS}.__init__", "self._last =", "self.found is not None",
          stack=30),
    Place("checkpoint: a start reads the whole log", f"{CHECKPOINTS}.__init__", "positions.wipe(first)", stack=20),
    Place("checkpoint: is damaged", f"{SNAPSHOTS}.checkpoint", "self.checkpoint_flaw =", stack=200),
    Place("checkpoint: is from before the log start", f"{SNAPSHOTS}.checkpoint", "return checkpoint if",
          "self.snapshot is not None and checkpoint.index < self.snapshot.index", stack=500),
    Place("checkpoint: index files do not match it", f"{CHECKPOINTS}.__init__", 'self.flaw = "index files', stack=30),
    Place("checkpoint: is of a log that was replaced", f"{SNAPSHOTS}.save", "if log_number == self._log_number",
          "log_number != self._log_number", stack=RARE),

    Place("vote: the same vote is saved again", f"{VOTES}.save", "sequence = self._sequence + 1", "vote == self._vote",
          stack=RARE),
    Place("vote: a save fails", f"{VOTES}.save", "self._failure = error", stack=RARE),
    Place("vote: a start finds a slot that was not written completely", f"{VOTES}.open", "sequence, vote = max(",
          "len(valid) == 1 and valid[0][0] > 1", stack=500),

    Place("write: a failed write is undone", f"{WRITES}.write", "self._undo(groups[: number + 1], end)", stack=2000),
    Place("write: a failed write cannot be undone", f"{WRITES}._undo", "self._failure = error", stack=RARE),
    Place("write: a log is cut across segments", f"{WRITES}.erase_after", "self._segments.remove_after(keep)",
          stack=RARE),
    Place("write: a cut fails", f"{WRITES}.erase_after", "self._failure = error", stack=RARE),
)
# fmt: on
