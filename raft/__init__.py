"""Raft for one shard: the pure core (`raft.core`), and the driver that connects it to disk, network and state machine.

How to drive a replica of a shard (`cluster/node/shard_replica.py` does it in full):

1. Open the log, the vote file and the snapshots with `store`. Build a `Driver` from them, a `Transport`, a `Disk` for
   fsyncs on helper threads, and a `Machine` that applies entries (interfaces.py).
2. Call every method of the driver from one thread, the event loop's. No method waits. Call `driver.start()` once.
3. Call `driver.tick()` at a fixed interval. Call `receive`, `receive_append` and `receive_snapshot` for each message.
4. To write: call `check_room(size)`, which raises a refusal, then `propose(proposal)`. The proposal hears `appended`
   when the entry is in this log, and `settled` when it is committed and applied or when this node stopped leading.
5. To read: call `read_index(answer)`. After `answer(True)` the state machine is recent enough to read.
6. To change the members: call `change(...)`, one voter at a time. To hand leadership over: call `transfer(node)`.
7. If `driver.failure` is set, the disk failed: this replica does not lead until the disk works or the node restarts.
   Call `driver.stop()` before the log is closed.

Reading order: core/, then driver.py (the order of duties), interfaces.py, log_start.py (log start and snapshots),
snapshot_piece.py, configuration_entry.py and ranges.py (bytes of entries), reads.py, held_up.py, errors.py, transport/.
"""
