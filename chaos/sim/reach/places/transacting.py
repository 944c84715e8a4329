"""Places of transactions."""

from __future__ import annotations

from chaos.sim.reach.place import RARE, Place

ENDS, SETTLING = "ledger.broker.transactions.ends:TransactionEnds", "ledger.broker.transactions.settling:HalfSettling"
CHECKS, ANSWERS = (
    "ledger.broker.transactions.checking:TransactionChecks",
    "ledger.broker.transactions.answering:ShardAnswers",
)
COPIES, TABLE = (
    "ledger.broker.transactions.copying:HalfCopies",
    "ledger.state.transaction_table:TransactionTable",
)

# fmt: off
PLACES = (
    Place("transaction: one entry commits a transaction", f"{ENDS}._propose", "return replica.settle_half", stack=100),
    Place("transaction: several half batches are committed", f"{ENDS}._propose", "return replica.end_halves(Commit",
          stack=100),
    Place("transaction: an end waits for another one", f"{ENDS}.end", "await asyncio.wait", stack=150),
    Place("transaction: an end is asked for again", f"{ENDS}._tell_ended", "wanted =", stack=100),
    Place("transaction: a committed half batch is carried out", f"{SETTLING}.carry_out", "batch =", stack=100),
    Place("transaction: another shard carries a commit out", f"{ANSWERS}._settle", "await self._settling", stack=500),
    Place("transaction: a half batch that no commit names is rolled back", f"{SETTLING}._roll_back",
          "await self._replica.end_halves", stack=400),
    Place("transaction: a shard learns a decision because it asks", f"{SETTLING}._follow", "by_verdict:",
          "any(verdicts)", stack=500),
    Place("transaction: a producer is asked", f"{CHECKS}._check", "asked =", stack=100),
    Place("transaction: a producer does not know the outcome", f"{CHECKS}._check", "projected =", stack=100),
    Place("transaction: half batches are copied before the log start moves", f"{COPIES}._copy", "await asyncio.gather",
          "len(entries) > 0", stack=500),
    Place("transaction: a copy of a half batch that was settled meanwhile", f"{TABLE}.move", "half =",
          "number not in self.waiting", stack=RARE),
)
# fmt: on
