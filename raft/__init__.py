"""Raft for one shard: the pure core (`raft.core`), and the driver that connects it to disk, network and state machine.

The following steps drive a replica of a shard. `cluster/node/replica/builder.py` contains all steps:

1. Open the log, the vote file and the snapshots with `store`. Build a `Raft` from `RaftSettings` and `RecoveredState`.
   Build a `Driver` from the `Raft`, a `ReplicaStorage`, a `Transport`, a `DriverDisk` for fsyncs on helper threads, a
   `Machine` that applies entries, and a `DriverRuntime`.
2. Call every method of the driver from one thread, the thread of the event loop. No method waits. Call `driver.start()`
   once.
3. Call `driver.tick()` at a fixed interval. Call `receive`, `receive_append` or `receive_snapshot` for each message.
4. To write: call `check_room(size)`, which raises a refusal, then `propose(proposal)`. The driver calls
   `proposal.appended` when the entry is in this log. It calls `proposal.settled` when the entry is committed and
   applied, or when this node stops leading.
5. To read: call `read_index(answer)`. After `answer(True)` the state machine is recent enough to read.
6. To change the members: call `change(...)`, one voter at a time. To hand leadership over: call `transfer(node)`.
7. If `driver.failure` is set, the disk failed: this replica does not lead until the disk works or the node restarts.
   Call `driver.stop()` before the log is closed.

Reading order: core/, driver.py (the order of duties), driver_settings.py, interfaces.py, proposals.py, reads.py,
log_writer.py, entry_times.py (when this replica wrote, committed and applied its last entries), index_times.py (the
steps that entry_times.py remembers), received_range.py, forks.py (divergences that the core cannot see), applier.py,
bulk_sender.py, log_start.py, snapshot_installation.py, snapshot_piece.py, configuration_entry.py, ranges.py,
held_up.py, cluster_clock.py (the clock by which a leader dates entries), errors.py, transport/.
"""
