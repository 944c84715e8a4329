"""Computes from the committed entries what must become of each transaction, and compares it with what programs decided
and what they were told.

    program decides "commit"      every message is in its queue once, as it was sent
    program decides "rollback"    no message is in a queue, then or later

A program decides only after all its sends have results. The model follows the entries of each shard by itself, and asks
no node.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import Enum

from chaos.sim.stack.workload_history import name_of
from ledger.batch import Batch, DecidedColumn, HalfColumn, decided_column, half_column
from ledger.state.transaction_table import HERE
from ledger.v1 import command_pb2
from store import EntryKind, Header

Fail = Callable[[str, str], None]
# Shard and number of a half batch, or of a transaction.
HalfKey = tuple[int, int]


class HalfFate(Enum):
    WAITS = "waits"
    COMMITTED = "was committed"
    ROLLED_BACK = "was rolled back"
    DEAD = "is a dead letter"


@dataclass(slots=True)
class HalfEntry:
    """One half batch, of the program's transaction `program`."""

    name: bytes
    program: int
    transaction: HalfKey
    topic_id: int
    queue: int
    fate: HalfFate = HalfFate.WAITS


class TransactionTruth:
    """The transactions of one run. `fail(invariant, what)` records a violation."""

    def __init__(self, fail: Fail) -> None:
        self.counts = Counter[str]()
        # Called when a half batch, or a decision, of a shard is committed.
        self.on_half: Callable[[int], None] = lambda shard: None
        self.on_decision: Callable[[int], None] = lambda shard: None
        self._fail = fail
        # Program's transaction -> True for commit, False for rollback.
        self._decided: dict[int, bool] = {}
        # Name of a message -> the program's transaction.
        self._programs: dict[bytes, int] = {}
        self._halves: dict[HalfKey, HalfEntry] = {}
        self._by_name: dict[bytes, HalfEntry] = {}
        # Commits of several half batches: transaction -> the half batches that it names.
        self._commits: dict[HalfKey, set[HalfKey]] = {}
        # Messages whose sends were acknowledged.
        self._acknowledged: set[bytes] = set()

    # -- programs

    def sends(self, name: bytes, program: int) -> None:
        """Note that a program sends this message in its transaction `program`."""
        self._programs[name] = program

    def acknowledged(self, name: bytes) -> None:
        """Compare a send that was acknowledged: the message waits, or it was rolled back by a check."""
        self._acknowledged.add(name)
        if name not in self._by_name:
            self._fail("acknowledged is committed", f"half message {name!r} was acknowledged, and is in no log")

    def decide(self, program: int, *, commit: bool) -> bool:
        """Decide a program's transaction, if it is not decided. Return the decision."""
        return self._decided.setdefault(program, commit)

    def decision(self, name: bytes) -> bool | None:
        """Return how the program of this message decided, or None."""
        return self._decided.get(self._programs[name])

    def told(self, program: int, *, commit: bool) -> None:
        """Compare the success of a commit or rollback."""
        self.counts["transaction_ends_told"] += 1
        for entry in self._of(program):
            decided = entry.fate
            if commit and decided is HalfFate.WAITS and self._is_named(entry):
                continue  # it is being carried out
            # A half batch of another shard is rolled back when that shard asks.
            may_wait = not commit and self._key_of(entry) != entry.transaction
            wanted = HalfFate.COMMITTED if commit else HalfFate.ROLLED_BACK
            if decided is not wanted and not (may_wait and decided is HalfFate.WAITS):
                self._fail("an end that was told is so", f"{entry}, and its program was told commit={commit}")

    def refused(self, program: int, *, commit: bool) -> None:
        """Compare a commit or rollback that was answered with another end."""
        self._fail("the decision of a program counts", f"transaction {program}: commit={commit} was refused")

    # -- entries

    def committed(self, shard: int, header: Header, body: bytes) -> None:
        """Follow the next committed entry of a shard."""
        if header.kind is EntryKind.COMMAND:
            self._command(shard, body)
        elif header.kind is EntryKind.BATCH:
            half, decided = half_column(body), decided_column(body)
            if half is not None and half.copy_of is None:
                self._wait(shard, header, half, Batch(body))
            elif half is not None:
                self._copy(shard, half, Batch(body))
            elif decided is not None:
                self._settle(shard, header, decided, Batch(body))

    def _wait(self, shard: int, header: Header, half: HalfColumn, batch: Batch) -> None:
        number = header.base_offset
        for value in batch.values():
            name = name_of(value)
            transaction = (half.shard, number if half.transaction is None else half.transaction)
            entry = HalfEntry(name, self._programs.get(name, -1), transaction, half.topic_id, half.queue)
            if name in self._by_name:
                self._fail("a half message waits once", f"{name!r} was appended again as {number} of shard {shard}")
            self._halves[shard, number] = self._by_name[name] = entry
        self.counts["transaction_halves"] += 1
        self.on_half(shard)

    def _copy(self, shard: int, half: HalfColumn, batch: Batch) -> None:
        entry = self._halves.get((shard, -1 if half.copy_of is None else half.copy_of))
        if entry is None or [name_of(value) for value in batch.values()] != [entry.name]:
            self._fail("a copy is equal", f"a copy of {half.copy_of} in shard {shard} is not {entry}")
        self.counts["transaction_copies"] += 1

    def _settle(self, shard: int, header: Header, decided: DecidedColumn, batch: Batch) -> None:
        entry = self._halves.get((shard, decided.half))
        if entry is None or entry.fate is not HalfFate.WAITS:
            self._fail("a half message ends once", f"{header} settles {decided} of shard {shard}, which is {entry}")
            return
        if [name_of(value) for value in batch.values()] != [entry.name]:
            self._fail("committed as it was sent", f"{header} of shard {shard} has other messages than {entry}")
        decision = self._decided.get(entry.program)
        if decided.dead:
            entry.fate = HalfFate.DEAD
            if decision is not None:
                self._fail("what is decided is no dead letter", f"{entry} is a dead letter")
            return
        if (entry.topic_id, entry.queue) != (header.topic_id, header.queue):
            self._fail("committed as it was sent", f"{entry} was committed by {header}")
        if decision is not True:
            self._fail("committed only as its program decided", f"{entry} is committed, and its program: {decision}")
        if not decided.decides and entry.transaction[0] == shard and not self._is_named(entry):
            self._fail("the decision comes first", f"{entry} is carried out without a decision")
        entry.fate = HalfFate.COMMITTED
        self.counts["transaction_commits"] += decided.decides
        self.on_decision(shard)

    def _command(self, shard: int, body: bytes) -> None:
        command = command_pb2.Command.FromString(body)
        match command.WhichOneof("command"):
            case "roll_back_halves":
                for number in command.roll_back_halves.numbers:
                    self._roll_back(shard, number)
            case "commit_transaction":
                self._commit(shard, command.commit_transaction)
            case "count_unknown":
                self.counts["transaction_unknown_answers"] += len(command.count_unknown.transactions)

    def _commit(self, shard: int, commit: command_pb2.CommitTransaction) -> None:
        key = (shard, commit.transaction)
        first = self._halves.get(key)
        if first is None or first.fate is not HalfFate.WAITS or key in self._commits:
            self.counts["transaction_commits_refused"] += 1
            return
        names = {(shard if half.shard == HERE else half.shard, half.number) for half in commit.halves}
        self._commits[key] = names
        self.counts["transaction_commits_of_several"] += 1
        if self._decided.get(first.program) is not True:
            self._fail("committed only as its program decided", f"{first} of {key} is committed")
        missing = [
            entry for at, entry in self._halves.items() if entry.transaction == key
            and entry.name in self._acknowledged and at not in names
        ]  # fmt: skip
        if missing:
            self._fail("a commit has all messages", f"{commit} leaves out {missing}")
        self.on_decision(shard)

    def _roll_back(self, shard: int, number: int) -> None:
        key = (shard, number)
        entry = self._halves.get(key)
        if entry is None or entry.fate is not HalfFate.WAITS:
            return
        first = self._halves.get(entry.transaction)
        is_open = first is not None and first.fate is HalfFate.WAITS and entry.transaction not in self._commits
        if self._is_named(entry) or (key != entry.transaction and entry.transaction[0] == shard and is_open):
            return  # refused
        entry.fate = HalfFate.ROLLED_BACK
        self.counts["transaction_rollbacks"] += 1
        if self._decided.get(entry.program) is True and entry.name in self._acknowledged:
            self._fail("committed only as its program decided", f"{entry} is rolled back, and its program committed")
        self.on_decision(shard)

    def _is_named(self, entry: HalfEntry) -> bool:
        return self._key_of(entry) in self._commits.get(entry.transaction, ())

    def _key_of(self, entry: HalfEntry) -> HalfKey:
        return next(key for key, each in self._halves.items() if each is entry)

    def _of(self, program: int) -> list[HalfEntry]:
        return [
            entry for entry in self._by_name.values()
            if entry.program == program and entry.name in self._acknowledged
        ]  # fmt: skip

    # -- the end

    def unsettled(self) -> Iterator[str]:
        """Yield a phrase for each shard with half batches that wait although their programs have decided."""
        waiting = Counter[int]()
        for (shard, _), entry in self._halves.items():
            waiting[shard] += entry.fate is HalfFate.WAITS
        for shard, count in sorted(waiting.items()):
            if count:
                yield f"shard {shard} has {count} half batches that wait"
