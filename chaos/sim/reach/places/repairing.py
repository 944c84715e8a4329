"""Places of startup repair and scrub repair."""

from __future__ import annotations

from chaos.sim.reach.place import RARE, Place

LOG_REPAIR, SHARD_LOG = "store.repair.log_repair:LogRepair", "cluster.node.replica.shard_log:ShardLog"
STARTUP, SCRUB = "cluster.node.repair.startup_repair:StartupRepair", "cluster.node.repair.scrub_repairer:ScrubRepairer"
PEER = "cluster.node.repair.startup_repair:_Peer"
READER = "cluster.node.repair.entry_source:EntryReader"

# fmt: off
PLACES = (
    Place("repair: begins", f"{STARTUP}.run", stack=500),
    Place("repair: begins in a log with a checkpoint", f"{STARTUP}._look", "snapshot =", "self._known_index() > 0",
          stack=500),
    Place("repair: entries are taken, because they are committed", f"{LOG_REPAIR}.take", "taken = headers[:count]",
          "not is_found", stack=2000),
    Place("repair: the log's own entries follow again", f"{LOG_REPAIR}.take", "self._on_found_again()", stack=500),
    Place("repair: the other replica has no entry to take", f"{LOG_REPAIR}.take", "return Taken.NOTHING", stack=RARE),
    Place("repair: own entries contradict the committed ones", f"{LOG_REPAIR}.take", "self.cut()", stack=2000),
    Place("repair: the index of the next own entry fits, the chain does not", f"{LOG_REPAIR}._leads_home",
          "return follows", "first is not None and first.index == header.index + 1 and not follows", stack=2000),
    Place("repair: the log ends as at the orderly stop", f"{LOG_REPAIR}._leads_home", "return follows",
          "not follows and (tail.index, tail.end, tail.chain) == self._goal", stack=2000),
    Place("repair: two logs that differ are aligned", f"{LOG_REPAIR}.align", stack=RARE),
    Place("repair: a committed entry cuts a log that differs", f"{LOG_REPAIR}.align", "self.prefix.shorten(common)",
          stack=RARE),
    Place("repair: logs differ where nothing is committed", f"{LOG_REPAIR}.align", "return None", stack=RARE),
    Place("repair: a segment is missing and made again", f"{LOG_REPAIR}._whole_file", "return self._created(path)",
          stack=RARE),
    Place("repair: a segment has a wrong length and is made again", f"{LOG_REPAIR}._whole_file", "fresh =", stack=RARE),
    Place("repair: the log must not end here", f"{LOG_REPAIR}.may_cut", "return False", stack=RARE),
    Place("repair: the log is cut, and the leader sends the rest", f"{STARTUP}._cut", stack=2000),
    Place("repair: damage is left for scrub repair", f"{STARTUP}._run", "self.left =", stack=RARE),
    Place("repair: no node can help yet", f"{STARTUP}._run", "await asyncio.sleep", stack=RARE),
    Place("repair: the disk is full", f"{STARTUP}._ask_all", "self._answers[self._settings.node] =", stack=RARE),
    Place("repair: the disk fails", f"{STARTUP}.beside", "self._directory.marks(self._damaged.number)", stack=RARE),
    Place("repair: the other log begins behind the flaw", f"{PEER}.ask",
          "self.would_cut_at = self._repair.tail if await self._supersedes", stack=RARE),
    Place("repair: the other node does not answer", f"{PEER}._read", "return answer", "answer is None", stack=2000),
    Place("repair: the other log is damaged at the same place", f"{READER}._refusal",
          'return f"the log of node {self.node} {self._end(prev)}"', stack=RARE),
    Place("repair: the other log has another entry", f"{READER}._refusal", 'return f"entry {prev}', stack=RARE),
    Place("repair: leaves a suspect", f"{SHARD_LOG}._end_repair", "mark =", stack=2000),
    Place("repair: leaves no suspect, because the log ends as it stopped", f"{SHARD_LOG}._end_repair",
          "self._directory.marks(self._number).clear_repair()", "is_as_stopped", stack=RARE),

    Place("scrub: a repair begins", f"{SCRUB}.repair", "self.reason = self._description", stack=RARE),
    Place("scrub: the entries are whole again", f"{SCRUB}.repair", "commit_log.reading.mark_whole()", stack=RARE),
    Place("scrub: retention has removed the entries", f"{SCRUB}.repair", "return  # retention", stack=RARE),
    Place("scrub: no node can help yet", f"{SCRUB}._until_whole", "await asyncio.sleep", stack=RARE),
    Place("scrub: the entries of another node do not fit", f"{SCRUB}._is_whole", "log.error(", stack=RARE),
)
# fmt: on
