"""Judges one shard: compares its replicas, and finds up to which index its log is committed.

    node 1   ... 97 98 99 | 100 101         K = 99: the largest commit that any entry mentions
    node 2   ... 97 98 99 | 100             a prefix of node 1; behind by 1
    node 3   ... 97 98 99 | 100' 101'       diverges from both at 100: Raft replaces this tail, so it is only a note

A divergence at an index is a violation in three cases:

1. The two replicas that differ both know that the index is committed.
2. One replica knows that the entry at the index is committed, and the other replica has an entry of the same or a later
   term at or after the index. The leader of that term must have had the committed entry (Leader Completeness, section
   5.4 of the Raft paper).
3. Both replicas have an entry of the same term at one index. The leader of a term appends one entry at an index (Log
   Matching, section 5.3), so one of the two entries is by nobody who led the term. This needs no knowledge of commits.

In the picture, 100' of an older term than 100 is a note: its leader lost its followers before 100' was committed.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from ledger.validation.judging.violation import Violation, ViolationKind
from ledger.validation.judging.windows import DivergedRange
from ledger.validation.naming import rendered
from ledger.validation.replay.replay import Replayed
from ledger.validation.report.report import COURSE_POINTS, ReplicaReport, ShardReport
from ledger.validation.sources.replica import LogReplica
from ledger.validation.sources.sources import configuration_of
from ledger.validation.spans.joining import JoinedLog, LogFinding
from ledger.words import counted

_TERMS_SHOWN = 1000


@dataclass(frozen=True, slots=True)
class Judged:
    report: ShardReport
    violations: tuple[Violation, ...]
    # The number of the replica whose log stands for the shard.
    reference: int
    committed: int


class ShardJudge:
    def __init__(
        self,
        shard: int,
        logs: Sequence[JoinedLog],
        replayed: Mapping[int, Replayed],
        divergences: Sequence[DivergedRange],
        counted: Mapping[int, tuple[int, int, int]],
        names: Mapping[int, str],
    ) -> None:
        """`counted` has three numbers for each replica: its messages, its ConsumeQueue units that agree with the
        log, and its keys that agree with the log. `names` has the names of topics by id."""
        self._shard = shard
        self._logs = {log.replica.number: log for log in logs}
        self._replayed = replayed
        self._divergences = divergences
        self._counted = counted
        self._names = names
        self._commits = {log.replica.number: _commit_of(log) for log in logs}
        self._reference = max(logs, key=self._worth).replica
        self._violations: list[Violation] = []
        self._notes: list[str] = []

    def judge(self) -> Judged:
        for divergence in self._divergences:
            self._judge_divergence(divergence)
        known = max(self._commits.values(), default=0)
        held = self._judge_holders(known)
        committed = max(known, held)
        state_index = self._compare_states()
        report = ShardReport(
            shard=self._shard,
            replicas=tuple(self._replica(log, committed, state_index) for log in self._logs.values()),
            reference=self._reference.source,
            committed=committed,
            last_index=max(log.last_index for log in self._logs.values()),
            voters=self._voters(),
            state_index=state_index,
            notes=tuple(self._notes),
        )
        report = replace(report, notes=(*report.notes, *_of_equal_states(report)))
        return Judged(report, tuple(self._violations), self._reference.number, committed)

    def _worth(self, log: JoinedLog) -> tuple[bool, bool, int, int]:
        """Return the sort key by which the reference replica is chosen. Complete logs are preferred, then a larger
        commit index, then a longer log."""
        return log.is_read, not log.wrong, self._commits[log.replica.number], log.last_index

    # -- replicas against each other

    def _judge_divergence(self, divergence: DivergedRange) -> None:
        one, other = self._logs[divergence.first_replica], self._logs[divergence.second_replica]
        ours, theirs = self._commits[divergence.first_replica], self._commits[divergence.second_replica]
        names = f"{one.replica.source} and {other.replica.source}"
        ours_in_words, theirs_in_words = (rendered(each, self._names) for each in (divergence.ours, divergence.theirs))
        entries = f"{one.replica.source}: {ours_in_words}; {other.replica.source}: {theirs_in_words}"
        kind = ViolationKind.REPLICAS_DIFFER
        if min(ours, theirs) >= divergence.index:
            why = "it is committed in both"
        elif ours >= divergence.index and divergence.last_term >= (divergence.first_commit_term or _last_term(one)):
            why = (
                f"it is committed in {one.replica.source}, and {other.replica.source} continues in term "
                f"{divergence.last_term}, whose leader must have had it"
            )
        elif theirs >= divergence.index and divergence.first_last_term >= (
            divergence.second_commit_term or _last_term(other)
        ):
            term = divergence.first_last_term
            why = (
                f"it is committed in {other.replica.source}, and {one.replica.source} continues in term {term}, "
                "whose leader must have had it"
            )
        elif divergence.same_term_index:
            kind = ViolationKind.FORKED_TERM
            why = (
                f"both have an entry of the same term at index {divergence.same_term_index}, of which the term's "
                f"leader appended at most one{self._majority(divergence)}"
            )
        else:
            self._notes.append(f"{names} diverge at entry {divergence.index}, in a tail that Raft replaces: {entries}")
            return
        reason = f"they diverge at entry {divergence.index}, and {why}: {entries}{self._strangers(divergence)}"
        self._violations.append(
            Violation(
                kind,
                self._shard,
                names,
                reason,
                index=divergence.index,
                position=divergence.position,
                last_index=divergence.last_index,
            )
        )

    def _majority(self, divergence: DivergedRange) -> str:
        """Return words that name the side of the divergence that a majority of the voters shares, or ""."""
        voters = self._voters()
        for number in (divergence.first_replica, divergence.second_replica):
            nodes = {log.replica.node for other, log in self._logs.items() if self._agree(number, other, divergence)}
            if len(nodes & set(voters)) > len(voters) // 2:
                return f", and a majority of the voters has that of {self._logs[number].replica.source}"
        return ""

    def _agree(self, one: int, other: int, divergence: DivergedRange) -> bool:
        """Return True if two replicas have the same entry at the index of the divergence."""
        differs = any(
            {each.first_replica, each.second_replica} == {one, other}
            and each.index <= divergence.index <= each.last_index
            for each in self._divergences
        )
        return self._logs[other].last_index >= divergence.index and not differs

    def _strangers(self, divergence: DivergedRange) -> str:
        """Return a sentence if the two logs have no member in common, because then they belong to two clusters."""
        both = [self._incarnations(number) for number in (divergence.first_replica, divergence.second_replica)]
        if all(both) and not both[0] & both[1]:
            return ". The logs have no member in common, so they belong to two clusters"
        return ""

    def _incarnations(self, replica: int) -> set[bytes]:
        configuration = configuration_of(self._replayed[replica].configuration)
        return {member.incarnation for member in configuration.members.values()} if configuration is not None else set()

    # -- what is held

    def _voters(self) -> tuple[int, ...]:
        configuration = configuration_of(self._replayed[self._reference.number].configuration)
        return tuple(sorted(configuration.voters)) if configuration is not None else ()

    def _judge_holders(self, known: int) -> int:
        """Return the index up to which a majority of the voters holds the reference's log.

        Add a violation if a replica knows that an entry is committed, but no majority can hold the entry, even if all
        missing replicas hold it.
        """
        voters = self._voters()
        if not voters:
            return 0
        shown: dict[int, int] = {}
        possible: dict[int, int] = {}
        for number, log in self._logs.items():
            node = log.replica.node
            if node is None or node not in voters:
                continue
            held = self._held(number)
            shown[node] = max(shown.get(node, 0), held)
            # A running replica was read at another time than the others.
            may_hold = known if log.replica.is_running and held == log.last_index else held
            possible[node] = max(possible.get(node, 0), may_hold)
        majority = len(voters) // 2 + 1
        best = sorted((possible.get(voter, known) for voter in voters), reverse=True)[majority - 1]
        if best < known:
            having = sum(possible.get(voter, known) > best for voter in voters)
            reason = (
                f"entries {best + 1} to {known} were called committed, and only {having} of {len(voters)} voters "
                "can hold them"
            )
            self._violations.append(
                Violation(ViolationKind.COMMIT_NOT_HELD, self._shard, "", reason, index=best + 1, last_index=known)
            )
        return sorted((shown.get(voter, 0) for voter in voters), reverse=True)[majority - 1]

    def _held(self, number: int) -> int:
        """Return the last index up to which the replica agrees with the reference."""
        parted = self._parts_at(number)
        last = self._logs[number].last_index
        return last if parted is None else min(last, parted - 1)

    def _parts_at(self, number: int, other: int | None = None) -> int | None:
        """Return the first index at which the replica diverges from the replica `other`, or from the reference."""
        pair = {number, self._reference.number if other is None else other}
        indexes = [each.index for each in self._divergences if {each.first_replica, each.second_replica} == pair]
        return min(indexes, default=None)

    # -- states

    def _compare_states(self) -> int | None:
        """Compare the replayed states of the replicas. Return the largest index at which the states of all replicas
        are known."""
        told = {number: self._replayed[number].states for number in self._logs}
        for index in sorted({index for states in told.values() for index in states}):
            having = {number: states[index] for number, states in told.items() if index in states}
            having = {number: state for number, state in having.items() if self._held(number) >= index}
            if len(set(having.values())) > 1:
                self._tell_states(index, having)
        common = set.intersection(*map(set, told.values())) if told else set()
        return max(common, default=None)

    def _tell_states(self, index: int, having: Mapping[int, tuple[int, int]]) -> None:
        source = self._right(index, having)
        right = having[source]
        for number, state in having.items():
            replica = self._logs[number].replica
            parted = self._parts_at(number, source)
            if state == right or (parted is not None and parted <= index):
                continue
            is_snapshot = self._is_from_base(number, index)
            kind = ViolationKind.STALE_SNAPSHOT if is_snapshot else ViolationKind.STATE_DIFFERS
            what = "the state" if state[0] != right[0] else "the configuration"
            reason = f"{what} at entry {index} differs from that of {self._logs[source].replica.source}"
            path = replica.base if is_snapshot else None
            self._violations.append(
                Violation(
                    kind,
                    self._shard,
                    replica.source,
                    reason,
                    index=index,
                    position=0 if is_snapshot else None,
                    path=path,
                )
            )

    def _right(self, index: int, having: Mapping[int, tuple[int, int]]) -> int:
        """Return the replica whose state is taken for the right one. It is the reference if the reference has a state
        there. Otherwise it is a replica whose state most replicas have. Among several of them, a replica that has
        replayed its state is preferred to a replica that has read the state from its snapshot."""
        if self._reference.number in having:
            return self._reference.number
        states = list(having.values())
        return max(
            having,
            key=lambda number: (
                states.count(having[number]),
                not self._is_from_base(number, index),
                self._worth(self._logs[number]),
            ),
        )

    def _is_from_base(self, number: int, index: int) -> bool:
        """Return True if the state of the replica at the index is that of the snapshot at its log start."""
        replica = self._logs[number].replica
        return replica.start is not None and replica.start.index == index and replica.base is not None

    # -- what is said of each

    def _replica(self, log: JoinedLog, committed: int, state_index: int | None) -> ReplicaReport:
        replica, number = log.replica, log.replica.number
        messages, units, keys = self._counted[number]
        parted = self._parts_at(number) if number != self._reference.number else None
        longest = max(each.last_index for each in self._logs.values())
        state = self._replayed[number].states.get(state_index) if state_index is not None else None
        return ReplicaReport(
            source=replica.source,
            node=replica.node,
            is_running=replica.is_running,
            first_index=log.first_index,
            last_index=log.last_index,
            end=log.end,
            known_commit=self._commits[number],
            entries=log.entries,
            messages=messages,
            bytes=replica.total_bytes,
            behind=longest - self._held(number),
            lacks_committed=max(0, committed - self._held(number)),
            parts_at=parted,
            units=units,
            keys=keys,
            has_indexes=replica.indexes is not None,
            state=f"{state[0]:016x}" if state is not None else None,
            terms=tuple(_rising(log.terms))[:_TERMS_SHOWN],
            course=_some(log.course),
        )


def _of_equal_states(report: ShardReport) -> Iterable[str]:
    """Yield a sentence for each replica that is behind and has the same digest of the state as a replica that is not,
    because a reader could take equal digests for equal logs."""
    ahead = {replica.state for replica in report.replicas if not replica.behind}
    for replica in report.replicas:
        if replica.behind and replica.state is not None and replica.state in ahead:
            count = counted(replica.behind, "entry", "entries")
            yield (
                f"{replica.source} is behind by {count}, and its state has the same digest as the others: states are "
                f"compared after entry {report.state_index}, the last entry at which all replicas have one"
            )


def _commit_of(log: JoinedLog) -> int:
    """Return the index up to which the log is committed, according to its own entries, its snapshots or its node. A
    node writes snapshots and checkpoints only of entries that it has applied, so they are committed."""
    replica = log.replica
    snapshots = (replica.checkpoint_index, *(index for index, _ in replica.kept))
    return min(log.last_index, max(log.known_commit, replica.told_commit, *snapshots))


def _last_term(log: JoinedLog) -> int:
    return log.last.term if log.last is not None else 0


def _rising(terms: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return each term once, together with the first index that has the term. The input has a term at the beginning
    of every span, even if the term did not change."""
    found: list[tuple[int, int]] = []
    for term, index in terms:
        if not found or found[-1][0] != term:
            found.append((term, index))
    return found


def _some(course: Sequence[tuple[int, int]]) -> tuple[tuple[int, int], ...]:
    """Return at most COURSE_POINTS points, evenly chosen, with the first and the last one."""
    if len(course) <= COURSE_POINTS:
        return tuple(dict.fromkeys(course))
    step = (len(course) - 1) / (COURSE_POINTS - 1)
    return tuple(dict.fromkeys(course[round(number * step)] for number in range(COURSE_POINTS)))


def place_violations(replica: LogReplica, log: JoinedLog) -> list[Violation]:
    """Return, as violations, the faults that were found when the spans of a replica were joined."""
    return [place_violation(replica, place) for place in log.wrong]


def place_violation(replica: LogReplica, place: LogFinding) -> Violation:
    return Violation(
        place.kind, replica.shard, replica.source, place.reason, index=place.index, position=place.position,
        last_index=place.last_index, end=place.end, path=place.path,
    )  # fmt: skip
