"""Places of followers, divergences, snapshots, log starts, clocks, and failures of disks."""

from __future__ import annotations

from chaos.sim.reach.place import RARE, Place

RAFT, SERVER, LEADER = "raft.core.raft:Raft", "raft.core.server:Server", "raft.core.leader:Leader"
FOLLOWER, PROGRESS = "raft.core.follower:Follower", "raft.core.progress:FollowerProgress"
DRIVER, LOG_START = "raft.driver:Driver", "raft.log_start:LogStart"
INCOMING = "store.snapshot.incoming_snapshot:IncomingSnapshot"
CLOCK = "raft.cluster_clock:ClusterClock"

# fmt: off
PLACES = (
    Place("follower: cuts entries that contradict the leader's", f"{SERVER}._write_from",
          "truncate_to, self._valid_from", protocol=100, stack=50),
    Place("follower: cuts entries that were durable", f"{SERVER}._write_from", "truncate_to, self._valid_from",
          "first <= self.durable", protocol=100, stack=50),
    Place("follower: keeps the first entries of a range that it has", f"{SERVER}._write_from", "token, truncate_to =",
          "first > append.prev_index + 1", protocol=100, stack=50),
    Place("follower: lacks the entry before a range", f"{FOLLOWER}._reject", protocol=30, stack=30),
    Place("follower: gets a range from before its log start", f"{FOLLOWER}.on_append", "self._acknowledge(min(",
          protocol=RARE, stack=500),
    Place("follower: cannot write, and has the range already", f"{FOLLOWER}.on_append", "self._accept(append)",
          "not self._server.writable", protocol=100, stack=500),
    Place("follower: a write is durable whose entries were cut", f"{SERVER}.persisted", "if token < self._valid_from",
          "token < self._valid_from", protocol=20_000, stack=2000),
    Place("follower: owes an acknowledgement of entries that were cut", f"{FOLLOWER}.on_cut", "",
          "self._owed > self._server.matched", protocol=200, stack=RARE),

    Place("divergence: a server notes one", f"{SERVER}.diverge", "self.divergences =", protocol=3000, stack=RARE),
    Place("divergence: the terms are equal, the bytes differ", f"{RAFT}.forked", protocol=RARE, stack=RARE),
    Place("divergence: the leader's own log proves it", f"{LEADER}._contradicted", "progress.diverge()",
          protocol=3000, stack=RARE),
    Place("divergence: so many voters diverge that the leader steps down", f"{LEADER}._contradicted",
          "return None if server.agrees_with_majority", "not server.agrees_with_majority", protocol=RARE, stack=RARE),
    Place("divergence: ends with the removal of a member", "raft.core.divergence:that_remain", "return divergences if",
          "len(remain) < len(divergences)", protocol=RARE, stack=RARE),
    Place("divergence: a chain that is damaged in transit proves none", "raft.forks:Forks.is_proven", "return before",
          "before != self._forked_at", protocol=RARE, stack=2000),

    Place("snapshot: a follower is sent one", f"{PROGRESS}.must_send", "self.mode, self.snapshot_index, self.offset =",
          stack=2000),
    Place("snapshot: a newer one replaces the one that is sent", f"{PROGRESS}.must_send",
          "self.mode, self.snapshot_index, self.offset =", "self.mode is Mode.SNAPSHOT", stack=RARE),
    Place("snapshot: pieces of another one are given up", f"{INCOMING}.open", "disk.unlink(path)", stack=RARE),
    Place("snapshot: a damaged piece is refused", f"{INCOMING}.append", 'raise CorruptSnapshotError(f"the CRC',
          stack=2000),
    Place("snapshot: is on this node already", f"{FOLLOWER}.on_chunk", "self.answer_chunk(", stack=2000),
    Place("snapshot: installed over a shorter log", f"{SERVER}.install", "self._valid_from =",
          "self.log.last_index <= index", stack=2000),
    Place("snapshot: installed over a longer log", f"{SERVER}.install", "self._valid_from =",
          "self.log.last_index > index", stack=2000),
    Place("snapshot: installed over a longer log that contradicts it", f"{SERVER}.install", "self._valid_from =",
          "self.log.last_index > index and not self.log.holds(index, term)", stack=RARE),
    Place("snapshot: installed on a suspect", f"{SERVER}.install", "self._valid_from =", "self.suspicion", stack=RARE),
    Place("snapshot: a start completes an installation", "cluster.node.replica.shard_log:ShardLog._open",
          "self.snapshots.finish_reset()", "self.snapshots.is_resetting", stack=RARE),
    Place("snapshot: a snapshot of another entry than the committed one", f"{RAFT}.contradicted", stack=RARE),

    Place("log start: moves", f"{LOG_START}.move", "self._snapshots.begin_behind", stack=200),
    Place("log start: stays, because no snapshot was kept there", f"{LOG_START}.move", "log.warning(", stack=RARE),
    Place("log start: is later already", f"{LOG_START}.move", "if index < self._log.first_index",
          "index < self._log.first_index", stack=200),

    Place("clock: a leader's clock is far from the clocks of the others", f"{CLOCK}.now_ms", "agreed =",
          "abs(wall - middle) > TOLERANCE_MS", protocol=50, stack=50),
    Place("clock: a node without others doubts its clock", f"{CLOCK}._alone", "self._doubted_since = steady",
          protocol=100, stack=500),
    Place("clock: a leap is believed in the end", f"{CLOCK}._alone", "self._offset, self._doubted_since =",
          "abs(wall - expected) > TOLERANCE_MS", protocol=RARE, stack=RARE),

    Place("disk: a write fails", f"{DRIVER}.fail", protocol=50, stack=200),
    Place("disk: a failure that ends only with the process", f"{DRIVER}.fail", "", "not failure.retriable",
          protocol=200, stack=500),
    Place("disk: works again", f"{DRIVER}._resume", protocol=100, stack=200),
    Place("disk: a range is dropped that a full disk cannot take", f"{DRIVER}.receive_append", "return  # this node",
          protocol=100, stack=200),
    Place("disk: a replica without room refuses new data", "cluster.node.replica.room_watch:RoomWatch._judge",
          'log.error("shard', stack=50),
)
# fmt: on
