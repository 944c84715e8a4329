"""Checks Raft's invariants (Figure 3 of the Raft paper) after every event of a simulated run.

    Election Safety      a term has at most one leader
    Leader Append-Only   a leader never overwrites or cuts its own log
    Log Matching         entries with the same index and term are equal, and so are all entries before them (the chain)
    Leader Completeness  a leader has every entry that was committed in an earlier term
    State Machine Safety committed entries never change or vanish; replicas at the same applied index have equal states
    on each node         applied <= commit <= last_index; term, vote and commit never decrease

The checker is fast enough to run after every event, because it examines only the changes of a node since the last
check of this node. The checker identifies an entry by its chain value, which covers the entry and all entries before
it.

The module stack/deliveries.py checks sent, committed and delivered messages. The class `Invariants` checks all nodes
that implement `SimNode`: the nodes of both worlds of the simulator, and the Raft cores of the tests in `tests/raft`.
"""

from __future__ import annotations

from collections.abc import Callable
from collections.abc import Set as AbstractSet

from chaos.sim.world import InvariantViolation, SimNode, SimNodeLog
from raft.core import Raft, Role
from raft.core.quorum import majority

# The checker compares states each time the applied index is a multiple of this number, and at the end of the run.
DIGEST_EVERY = 64


class _View:
    """The state of a node at its last check. The field `chains` stays valid after the end of the process, because
    `chains` describes the log on disk."""

    __slots__ = ("applied", "chains", "commit", "forgiven", "longest", "raft", "role", "term", "vote")

    def __init__(self) -> None:
        self.raft: Raft | None = None
        self.role = Role.FOLLOWER
        self.term = 0
        self.commit = 0
        # The node's commit index when a loss was forgiven, if it was above the index that is left; otherwise 0.
        self.forgiven = 0
        self.applied = 0
        # Chain values of the log's entries: chains[0] is that of index 1.
        self.chains: list[int] = []
        # The highest last index that this log has ever had.
        self.longest = 0
        # Term and vote that the disk holds.
        self.vote = (0, 0)


class Invariants:
    """Checks the invariants of one shard."""

    def __init__(
        self, now_ms: Callable[[], int], violations: list[InvariantViolation] | None = None, shard: int | None = None
    ) -> None:
        """`violations` is a list to which other checkers can add violations too. If `shard` is not None, the text
        of each violation names the shard."""
        self.violations = [] if violations is None else violations
        # Term -> node that leads it.
        self.leaders: dict[int, int] = {}
        # Chain value of each committed entry, as first seen on any node: committed[0] is that of index 1.
        self.committed: list[int] = []
        # Committed entries that lagging logs have received. An entry counts when it makes a log longer than that log
        # has ever been.
        self.caught_up = 0
        # Called once for each committed entry, in order, with a log that contains the entry.
        self.on_commit: Callable[[SimNodeLog, int], None] = lambda log, index: None
        # Whether a violation of this invariant counts. A fault beyond Raft's fault model changes it.
        self.counts: Callable[[str], bool] = lambda invariant: True
        self._now_ms = now_ms
        self._where = "" if shard is None else f"shard {shard}: "
        # (index, term) -> chain value, for every entry that was ever seen in a log.
        self._chains: dict[tuple[int, int], int] = {}
        self._views: dict[int, _View] = {}
        self._newest_led = 0
        # Applied index -> digest of the state at that index.
        self._digests: dict[int, int] = {}

    def fail(self, invariant: str, what: str) -> None:
        """Record a violation of the named invariant, if the invariant counts."""
        if not self.counts(invariant):
            return
        self.violations.append(InvariantViolation(self._now_ms(), invariant, f"{self._where}{what}"))

    # -- after every event

    def check(self, node: SimNode) -> bool:
        """Check a node after an event of the node. Return True if the node's log, commit index, term or role has
        changed since the last check."""
        raft, log = node.raft, node.log
        if raft is None or log is None:
            return False
        view = self._views.get(node.node) or self._view(node.node)
        if view.raft is not raft:
            self._started(node.node, view, raft)
        changed, last, chains = False, log.last_index, view.chains
        if len(chains) != last or (last and log.header(last).chain != chains[-1]):
            self._log_changed(node.node, view, raft, log)
            changed = True
        commit = raft.commit
        if commit != view.commit:
            self._commit_changed(node.node, view, log, commit)
            changed = True
        if raft.term != view.term or raft.role is not view.role:
            self._role_changed(node.node, view, raft)
            changed = True
        return changed

    def vote_saved(self, node: int, term: int, voted_for: int) -> None:
        """Record that this vote is now on the node's disk."""
        view = self._view(node)
        saved_term, saved_vote = view.vote
        if term < saved_term:
            self.fail("durable term", f"node {node} saved term {term} after term {saved_term}")
        if term == saved_term and saved_vote and voted_for != saved_vote:
            self.fail("one vote a term", f"node {node} voted for nodes {saved_vote} and {voted_for} in term {term}")
        view.vote = (term, voted_for)

    def vote_found(self, node: int, term: int, voted_for: int) -> None:
        """Check the vote that a node finds on its disk at a start. The vote must be the last saved vote, or a newer
        vote that was being saved when the node stopped."""
        if (term, voted_for) < self._view(node).vote and term <= self._view(node).vote[0]:
            self.fail("durable vote", f"node {node} starts with {term, voted_for}, had saved {self._view(node).vote}")
        else:
            self.vote_saved(node, term, voted_for)

    def applied(self, node: int, index: int, commit: int, digest: Callable[[], int]) -> None:
        """Check that the node is allowed to apply the entry at `index`. `commit` is the node's commit index. The
        function `digest` returns the digest of the node's state after the entry at `index`."""
        view = self._view(node)
        if index > commit:
            self.fail("applied <= commit", f"node {node} applies entry {index}, but its commit index is {commit}")
        if index != view.applied + 1:
            self.fail("applied in order", f"node {node} applies entry {index} after entry {view.applied}")
        view.applied = index
        if index % DIGEST_EVERY == 0:
            self.same_state(node, index, digest())

    def same_state(self, node: int, applied: int, digest: int) -> None:
        """Check that `digest` equals the state digest of every other replica that has reached the applied index
        `applied`."""
        known = self._digests.setdefault(applied, digest)
        if known != digest:
            self.fail("State Machine Safety", f"node {node} has a different state at applied index {applied}")

    def restarted(self, node: int, applied: int = 0) -> None:
        """Record that a new process of the node starts. `applied` is the index of the snapshot that the process has
        loaded, or 0 if the process has loaded none."""
        self._view(node).applied = applied

    def wiped(self, node: int) -> None:
        """Forget a node whose disk was wiped. After a wipe the node returns as a different voter."""
        self._views.pop(node, None)

    def kept_by(self, log: SimNodeLog) -> int:
        """Return the index of the last committed entry that this log contains. All committed entries up to this
        index are in the log too."""
        kept = min(len(self.committed), log.last_index)
        while kept and log.header(kept).chain != self.committed[kept - 1]:
            kept -= 1
        return kept

    def forgive(self, index: int) -> None:
        """Accept the loss of all committed entries after the entry at `index`. After the loss is accepted, other
        entries are allowed to be committed at the indexes of the lost entries."""
        del self.committed[index:]
        for view in self._views.values():
            if view.commit > index:
                view.commit, view.forgiven = index, view.commit
        for applied in [each for each in self._digests if each > index]:
            del self._digests[applied]

    @property
    def newest_commit(self) -> int:
        return len(self.committed)

    # -- what has changed

    def _view(self, node: int) -> _View:
        view = self._views.get(node)
        if view is None:
            view = self._views[node] = _View()
        return view

    def _started(self, node: int, view: _View, raft: Raft) -> None:
        if raft.term < view.vote[0]:
            self.fail("durable term", f"node {node} starts in term {raft.term}, but had saved term {view.vote[0]}")
        view.raft, view.role, view.term, view.commit = raft, Role.FOLLOWER, raft.term, 0

    def _log_changed(self, node: int, view: _View, raft: Raft, log: SimNodeLog) -> None:
        """Check the entries of the log that have changed since the last check of the node."""
        chains, last = view.chains, log.last_index
        same = min(len(chains), last)
        while same and log.header(same).chain != chains[same - 1]:
            same -= 1
        if same < view.commit:
            self.fail("committed entries stay", f"node {node} lost entry {same + 1}, which it had marked committed")
        if same < len(chains) and raft.role is view.role is Role.LEADER and raft.term == view.term:
            self.fail("Leader Append-Only", f"node {node} leads term {raft.term} and cut its log after entry {same}")
        del chains[same:]
        self.caught_up += max(0, min(last, len(self.committed)) - view.longest)
        view.longest = max(view.longest, last)
        for index in range(same + 1, last + 1):
            header = log.header(index)
            chains.append(header.chain)
            known = self._chains.setdefault((index, header.term), header.chain)
            if known != header.chain:
                self.fail("Log Matching", f"node {node} has a different entry {index} of term {header.term}")

    def _commit_changed(self, node: int, view: _View, log: SimNodeLog, commit: int) -> None:
        if commit < view.commit:
            self.fail("commit never falls", f"node {node} lowers its commit index from {view.commit} to {commit}")
        if commit > log.last_index:
            self.fail("commit <= last_index", f"node {node} commits entry {commit}, its log ends at {log.last_index}")
            commit = log.last_index
        committed, chains = self.committed, view.chains
        for index in range(view.commit + 1, commit + 1):
            if commit <= view.forgiven and chains[index - 1] not in committed[index - 1 : index]:
                return  # the node still holds the forgiven entry; it must not commit anything after that entry
            if index > len(committed):
                committed.append(chains[index - 1])
                self.on_commit(log, index)
            elif committed[index - 1] != chains[index - 1]:
                self.fail("State Machine Safety", f"node {node} commits a different entry {index} than another node")
        view.commit = commit

    def _role_changed(self, node: int, view: _View, raft: Raft) -> None:
        if raft.term < view.term:
            self.fail("term never falls", f"node {node} goes back from term {view.term} to term {raft.term}")
        if raft.role is Role.LEADER and (view.role is not Role.LEADER or view.term != raft.term):
            self._elected(node, raft.term, view.chains)
        view.term, view.role = raft.term, raft.role

    def _elected(self, node: int, term: int, chains: list[int]) -> None:
        first = self.leaders.setdefault(term, node)
        if first != node:
            self.fail("Election Safety", f"nodes {first} and {node} both lead term {term}")
        # Check only the newest leader. An older leader may not yet know that it was replaced; it can commit nothing.
        if term >= self._newest_led:
            self._newest_led = term
            if chains[: len(self.committed)] != self.committed:
                missing = next(
                    (i for i, chain in enumerate(self.committed, 1) if i > len(chains) or chains[i - 1] != chain), 0
                )
                self.fail("Leader Completeness", f"node {node} leads term {term} but lacks committed entry {missing}")


def wrong_commit(raft: Raft, holders: AbstractSet[int]) -> str:
    """Return what is wrong with the commit index of a leader if only `holders` have acknowledged the entry, or ""."""
    voters = raft.configuration.voters
    # The leader may have appended the newest configuration just after it committed.
    earlier = raft._server.configurations.before(raft.commit).voters
    if any(voting and len(holders & {*voting}) >= majority(voting) for voting in (voters, earlier)):
        return ""
    hold = sorted(holders & {*voters})
    return f"node {raft.node} commits entry {raft.commit}, acknowledged only by {hold} of {sorted(voters)}"
