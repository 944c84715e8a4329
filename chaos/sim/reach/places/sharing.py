"""Places of shared groups."""

from __future__ import annotations

from chaos.sim.reach.place import Place

TURNS, RECEIVES = "ledger.broker.shared.lease_turns:LeaseTurns", "ledger.broker.shared.group_receives:GroupReceives"
WINDOW = "ledger.state.lease_window:LeaseWindow"
LINK = "ledger.client.shared.shard_link:ShardLink"

# fmt: off
PLACES = (
    Place("lease: messages are leased", f"{WINDOW}.lease", "self._reach", stack=150),
    Place("lease: messages are handed out again", f"{WINDOW}.lease", "self._reach", "len(known) > 0", stack=150),
    Place("lease: a message is put off", f"{WINDOW}.put_off", "_free(slots", stack=150),
    Place("lease: a message is given back", f"{WINDOW}.give_back", "_free(slots", stack=1_500),
    Place("lease: a repeated receive gets its messages again", f"{RECEIVES}.repeated", "grants.append", stack=200),
    Place("lease: the streams of members end with the term", f"{TURNS}._end_of_term", "self._term = 0", stack=150),
    Place("lease: an idle leader writes its lease time", f"{TURNS}._time_entry", "return", "is_due", stack=300),
    Place("lease: a leader counts on from the lease time of an earlier leader",
          "ledger.broker.broker_replica:BrokerReplica.leading", "self._lease_clock.begin(",
          "self.state.shared.leases.time_ms > 0", stack=200),
    Place("lease: a message goes to the dead letters", f"{TURNS}._move_dead", "moves.append", stack=250),
    Place("lease: a member sends a receive again", f"{LINK}._repeated", "failures += 1", "ask is not None",
          stack=150),
    Place("lease: messages before the log start are passed over", f"{WINDOW}.skip", "more =", stack=450),
)
# fmt: on
