"""The invariants reject wrong histories, written by hand, and accept correct ones."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, cast

import pytest

from chaos.sim.invariants import DIGEST_EVERY, Invariants
from chaos.sim.stack.deliveries import Deliveries, MessageSpan, Stream
from raft.core import Raft, Role


@dataclass(frozen=True)
class FakeHeader:
    term: int
    chain: int


@dataclass
class FakeLog:
    headers: list[FakeHeader] = field(default_factory=list)

    @property
    def last_index(self) -> int:
        return len(self.headers)

    def header(self, index: int) -> FakeHeader:
        return self.headers[index - 1]


@dataclass
class FakeRaft:
    term: int = 1
    commit: int = 0
    role: Role = Role.FOLLOWER


class FakeNode:
    """A node with the entries that the test gives it as "term:name". They are chained as in a real log."""

    def __init__(self, node: int) -> None:
        self.node = node
        self.alive = True
        self.core = FakeRaft()
        self.log: Any = FakeLog()

    @property
    def raft(self) -> Raft:
        return cast(Raft, self.core)

    def holds(self, entries: str, **core: Any) -> FakeNode:
        self.log.headers, chain = [], 0
        for entry in entries.split():
            chain = hash((chain, entry)) & 0xFFFFFFFF
            self.log.headers.append(FakeHeader(int(entry.split(":")[0]), chain))
        for name, value in core.items():
            setattr(self.core, name, value)
        return self

    def restarts(self) -> FakeNode:
        self.core = FakeRaft(term=self.core.term)
        return self


class Watched:
    """Two nodes, watched by the invariants."""

    def __init__(self) -> None:
        self.invariants = Invariants(lambda: 0)
        self.a, self.b = FakeNode(1), FakeNode(2)

    def look(self) -> list[str]:
        for node in (self.a, self.b):
            self.invariants.check(node)
        return [violation.invariant for violation in self.invariants.violations]


@pytest.fixture
def watched() -> Watched:
    return Watched()


def test_a_right_history_passes(watched: Watched) -> None:
    watched.a.holds("1:x 1:y", role=Role.LEADER, commit=1)
    watched.b.holds("1:x")
    assert watched.look() == []
    watched.a.holds("1:x 1:y", commit=2)
    watched.b.holds("1:x 1:y", commit=1)
    assert watched.look() == []
    watched.a.holds("1:x 1:y 1:lost")
    assert watched.look() == []
    watched.b.holds("1:x 1:y 2:z", term=2, role=Role.LEADER, commit=3)
    watched.a.holds("1:x 1:y 2:z", term=2, role=Role.FOLLOWER, commit=3)
    assert watched.look() == []
    watched.a.restarts().holds("1:x 1:y 2:z")
    assert watched.look() == []
    assert watched.invariants.newest_commit == 3


def test_who_was_behind_catches_up_once(watched: Watched) -> None:
    watched.a.holds("1:x 1:y", role=Role.LEADER, commit=2)
    watched.b.holds("1:x")
    watched.look()
    assert watched.invariants.caught_up == 1, "the others were not committed when the first had them"
    for entries in ("1:x 1:y", "1:x", "1:x 1:y"):
        watched.b.holds(entries)
        watched.look()
    assert watched.invariants.caught_up == 2


def test_two_leaders_of_one_term(watched: Watched) -> None:
    watched.a.holds("1:x", term=3, role=Role.LEADER)
    watched.b.holds("1:x", term=3, role=Role.LEADER)
    assert watched.look() == ["Election Safety"]


def test_a_leader_cuts_its_log(watched: Watched) -> None:
    watched.a.holds("1:x 1:y", term=2, role=Role.LEADER)
    assert watched.look() == []
    watched.a.holds("1:x")
    assert watched.look() == ["Leader Append-Only"]


def test_a_leader_of_a_later_term_may_have_cut_its_log_as_a_follower_between(watched: Watched) -> None:
    watched.a.holds("1:x 1:y", term=2, role=Role.LEADER)
    watched.look()
    watched.a.holds("1:x", term=4, role=Role.LEADER)
    assert watched.look() == []


def test_another_entry_of_the_same_term_at_the_same_index(watched: Watched) -> None:
    watched.a.holds("1:x 1:y")
    watched.b.holds("1:x 1:z")
    assert watched.look() == ["Log Matching"]


def test_the_same_entry_behind_another_history(watched: Watched) -> None:
    watched.a.holds("1:x 3:y")
    watched.b.holds("2:x 3:y")
    assert watched.look() == ["Log Matching"]


def test_another_entry_is_committed(watched: Watched) -> None:
    watched.a.holds("1:x 1:y", commit=2)
    watched.b.holds("1:x 2:z", commit=2)
    assert watched.look() == ["State Machine Safety"]


def test_a_committed_entry_is_cut(watched: Watched) -> None:
    watched.a.holds("1:x 1:y", commit=2)
    assert watched.look() == []
    watched.a.holds("1:x 2:z")
    assert "committed entries stay" in watched.look()


def test_a_change_in_the_middle_of_a_log_is_seen_through_its_chain(watched: Watched) -> None:
    watched.a.holds("1:x 1:y 1:z", commit=3)
    watched.look()
    watched.a.holds("1:x 1:other 1:z", commit=3)
    assert set(watched.look()) >= {"committed entries stay", "Log Matching"}


def test_commit_falls_or_runs_ahead(watched: Watched) -> None:
    watched.a.holds("1:x 1:y", commit=2)
    watched.look()
    watched.a.core.commit = 1
    assert watched.look() == ["commit never falls"]
    watched.b.holds("1:x", commit=2)
    assert watched.look()[1:] == ["commit <= last_index"]


def test_a_leader_without_a_committed_entry(watched: Watched) -> None:
    watched.a.holds("1:x 1:y", role=Role.LEADER, commit=2)
    watched.b.holds("1:x", term=2)
    assert watched.look() == []
    watched.b.holds("1:x", role=Role.LEADER)
    assert watched.look() == ["Leader Completeness"]


def test_a_late_leader_of_an_old_term_need_not_have_what_was_committed_since(watched: Watched) -> None:
    watched.b.holds("1:x 3:y", term=3, role=Role.LEADER, commit=2)
    watched.look()
    watched.a.holds("1:x", term=2, role=Role.LEADER)
    assert watched.look() == []


def test_a_node_that_knows_of_a_forgiven_entry_must_not_commit_behind_it(watched: Watched) -> None:
    watched.b.holds("1:x 1:lost 1:lost-too", commit=2)
    watched.look()
    watched.a.holds("1:x", term=2, role=Role.LEADER, commit=1)
    watched.invariants.forgive(watched.invariants.kept_by(watched.a.log))
    assert watched.look() == []
    assert watched.invariants.newest_commit == 1
    watched.a.holds("1:x 2:y", commit=2)
    watched.b.restarts().core.commit = 2
    assert watched.look() == []
    assert watched.invariants.newest_commit == 2
    watched.b.core.commit = 3
    assert watched.look() == ["State Machine Safety"]


def test_terms_and_votes_go_back(watched: Watched) -> None:
    invariants = watched.invariants
    watched.a.holds("1:x", term=4)
    watched.look()
    watched.a.core.term = 3
    assert watched.look() == ["term never falls"]
    invariants.vote_saved(2, 5, 1)
    invariants.vote_saved(2, 5, 1)
    invariants.vote_found(2, 5, 1)
    invariants.vote_found(2, 6, 0)
    assert len(invariants.violations) == 1
    invariants.vote_found(2, 5, 1)
    invariants.vote_saved(2, 7, 1)
    invariants.vote_saved(2, 7, 3)
    invariants.vote_saved(2, 6, 0)
    found = [violation.invariant for violation in invariants.violations][1:]
    assert found == ["durable vote", "one vote a term", "durable term"]


def test_a_process_that_starts_below_its_durable_term(watched: Watched) -> None:
    watched.invariants.vote_saved(1, 9, 2)
    watched.a.holds("1:x", term=3)
    assert watched.look() == ["durable term"]


def test_applying_out_of_order_or_ahead_of_commit_or_to_another_state(watched: Watched) -> None:
    invariants = watched.invariants
    invariants.applied(1, 1, 1, lambda: 0)
    invariants.applied(1, 2, 1, lambda: 0)
    invariants.applied(1, 4, 4, lambda: 0)
    for index in range(1, DIGEST_EVERY + 1):
        invariants.applied(2, index, index, lambda: 5)
    invariants.same_state(3, DIGEST_EVERY, 5)
    assert [v.invariant for v in invariants.violations] == ["applied <= commit", "applied in order"]
    invariants.same_state(3, DIGEST_EVERY, 6)
    assert invariants.violations[-1].invariant == "State Machine Safety"


# -- what becomes of messages

STREAM, OTHER = Stream(7, 1, 0), Stream(8, 1, 0)


@pytest.fixture
def failed() -> list[str]:
    return []


@pytest.fixture
def deliveries(failed: list[str]) -> Deliveries:
    deliveries = Deliveries(lambda invariant, what: failed.append(invariant))
    deliveries.commit(MessageSpan(STREAM, 0, 3, 0))
    deliveries.commit(MessageSpan(OTHER, 0, 1, 3))
    deliveries.commit(MessageSpan(STREAM, 3, 2, 4))
    assert failed == []
    return deliveries


def test_right_acknowledgements_and_deliveries_pass(deliveries: Deliveries, failed: list[str]) -> None:
    deliveries.acknowledge(MessageSpan(STREAM, 3, 2, 4))
    deliveries.acknowledge(MessageSpan(STREAM, 3, 2, 4), again=True)
    for offset, sequence in enumerate((0, 1, 2)):
        deliveries.deliver(1, 0, offset, STREAM, sequence)
    deliveries.deliver(1, 0, 5, STREAM, 4)
    deliveries.read(floor=3, seen=3)
    deliveries.finish()
    assert failed == []
    assert deliveries.acknowledged == 2


@pytest.mark.parametrize(
    ("span", "invariant"),
    [
        (MessageSpan(STREAM, 3, 2, 6), "exactly once, in order"),
        (MessageSpan(STREAM, 6, 1, 6), "exactly once, in order"),
        (MessageSpan(STREAM, 5, 1, 7), "offsets without gaps"),
    ],
)
def test_wrong_commits(deliveries: Deliveries, failed: list[str], span: MessageSpan, invariant: str) -> None:
    deliveries.commit(span)
    assert failed == [invariant]


@pytest.mark.parametrize(
    "span",
    [
        MessageSpan(STREAM, 5, 1, 6),
        MessageSpan(STREAM, 3, 2, 5),
        MessageSpan(STREAM, 0, 2, 0),
        MessageSpan(Stream(9, 1, 0), 0, 1, 0),
    ],
)
def test_acknowledged_and_not_committed_so(deliveries: Deliveries, failed: list[str], span: MessageSpan) -> None:
    deliveries.acknowledge(span)
    assert failed == ["acknowledged is committed"]


@pytest.mark.parametrize(("offset", "stream", "sequence"), [(6, STREAM, 5), (0, OTHER, 0), (1, STREAM, 0)])
def test_delivered_and_not_committed_so(
    deliveries: Deliveries, failed: list[str], offset: int, stream: Stream, sequence: int
) -> None:
    deliveries.deliver(1, 0, offset, stream, sequence)
    assert failed == ["delivered is committed"]


def test_a_stale_read_and_a_forgotten_repeat(deliveries: Deliveries, failed: list[str]) -> None:
    deliveries.read(floor=4, seen=3)
    deliveries.forgotten(STREAM, 3)
    assert failed == ["reads are not stale", "repeats are remembered"]
