"""Places of messages with delivery times."""

from __future__ import annotations

from chaos.sim.reach.place import RARE, Place

DELIVERY, TURN = "ledger.broker.timed.delivery:TimedDelivery", "ledger.broker.timed.turn"
APPLIED, COPIES = "ledger.broker.timed.applied_timed:AppliedTimed", "ledger.broker.timed.copying:WaitingCopies"
TABLE = "ledger.state.timed_table:TimedTable"

# fmt: off
PLACES = (
    Place("delay: a turn delivers messages", f"{DELIVERY}._deliver", "targets, unreadable =", stack=100),
    Place("delay: a turn delivers messages into several queues", f"{DELIVERY}._deliver", "entries.append",
          "len(batches) > 1", stack=100),
    Place("delay: a leader goes on with the turn of an earlier leader", f"{TURN}:next_turn", "found =",
          "len(table.open) > 0 and not holds", stack=1_000),
    Place("delay: a turn only settles what was delivered before", f"{TURN}:moves_on", "return any(after",
          "any(after.is_settled(time_ms, identity) for identity, time_ms in table.open.items())", stack=RARE),
    Place("delay: a turn begins with late messages", f"{TURN}:next_turn", "units =",
          "len(found) > 0 and (int(found['time'][0]), int(found['identity'][0])) <= before", stack=100),
    Place("delay: more late messages than fit into a turn", f"{TURN}:_late_turn", stack=RARE),
    Place("delay: late messages that are not due wait", f"{TURN}:next_turn", "units = first_that_fit", "holds",
          stack=1_000),
    Place("delay: late messages with more bytes than fit into a turn", f"{TURN}:next_turn", "return _late_turn",
          "len(found) < room", stack=RARE),
    Place("delay: a turn leaves out a message that an entry on its way cancels", f"{TURN}:waiting_of", "return units",
          "not all(projected.waits(*key) for key in zip(units['time'].tolist(), units['identity'].tolist()))",
          stack=400),
    Place("delay: messages of a deleted topic are settled without delivery", f"{DELIVERY}._deliver",
          "undelivered += target.identities", stack=500),
    Place("delay: a waiting message cannot be read", f"{DELIVERY}._pass_over", stack=RARE),
    Place("delay: the clocks of a majority are not known", f"{DELIVERY}._look", "if now_ms is None",
          "now_ms is None", stack=RARE),
    Place("delay: a message that waits no more is cancelled", f"{APPLIED}.cancel", "cancelled =",
          "not all(asked.may_wait)", stack=1_000),
    Place("delay: a message is cancelled", f"{APPLIED}.cancel", "cancelled =", "len(waiting) > 0", stack=100),
    Place("delay: the index learns of a copy", f"{APPLIED}.put", "self.index.replace(", stack=1_000),
    Place("delay: waiting messages are copied before the log start moves", f"{COPIES}._copy_some",
          "await asyncio.gather", "len(units) > 0", stack=1_000),
    Place("delay: a replica begins with a snapshot of a shard that has delivered messages",
          "ledger.broker.broker_replica:BrokerReplica.restore", "self._applied.restore", "state.timed.cursor.seen > 0",
          stack=RARE),
    Place("delay: a cursor would go back", f"{TABLE}.settle", "if cursor[:2] < now[:2]",
          "cursor[:2] < now[:2] or cursor.seen < now.seen", stack=RARE),
)
# fmt: on
