"""What must hold after every event, over the whole history of a cluster (Figure 3 of the Raft paper).

    Election Safety      at most one leader a term
    Leader Append-Only   a leader never overwrites or cuts its log while it leads
    Log Matching         the same term at the same index: the same entry, and the same entries before it (the chain)
    Leader Completeness  a leader has every entry that was committed before it
    State Machine Safety what is committed never changes or vanishes; equal states at equal applied indexes
    and of each node     applied <= commit <= last_index; term, vote and commit never go back

Only what changed since the node was looked at last is compared, so it is cheap enough for every event. An entry is
known by its chain, which vouches for all before it.

What messages mean is judged in deliveries.py. Must not know: which world the nodes live in. Besides the worlds of this
package, the network of cores in `tests/raft` checks its nodes here.
"""

from __future__ import annotations

from collections.abc import Callable

from chaos.sim.world import SimNode, SimNodeLog, Violation
from raft.core import Raft, Role

# States are compared at every so many applied entries, and at the end.
DIGEST_EVERY = 64


class _View:
    """A node as it was seen last. `chains` outlives the process: it is what its log held."""

    __slots__ = ("applied", "chains", "commit", "forgiven", "longest", "raft", "role", "term", "vote")

    def __init__(self) -> None:
        self.raft: Raft | None = None
        self.role = Role.FOLLOWER
        self.term = 0
        self.commit = 0
        # What it knew committed when a loss was forgiven, if that was more than what is left; else 0.
        self.forgiven = 0
        self.applied = 0
        # By index, from 1 on.
        self.chains: list[int] = []
        # The last index that its log ever had.
        self.longest = 0
        # Term and vote as the disk has them.
        self.vote = (0, 0)


class Invariants:
    """Of one shard."""

    def __init__(
        self, now_ms: Callable[[], int], violations: list[Violation] | None = None, shard: int | None = None
    ) -> None:
        """`violations`: where they go, if others add to them too. `shard`: which one, where there are several."""
        self.violations = [] if violations is None else violations
        # Term -> its leader.
        self.leaders: dict[int, int] = {}
        # By index, from 1 on: the chain of the entry that was committed there first, by anyone.
        self.committed: list[int] = []
        # Committed entries that came into logs which had never been that long: what those who were behind have made
        # good.
        self.caught_up = 0
        # Called once for each committed entry, in order, with a log that holds it.
        self.on_commit: Callable[[SimNodeLog, int], None] = lambda log, index: None
        self._now_ms = now_ms
        self._where = "" if shard is None else f"shard {shard}: "
        # (index, term) -> chain, of every entry that was ever seen in a log.
        self._chains: dict[tuple[int, int], int] = {}
        self._views: dict[int, _View] = {}
        self._newest_led = 0
        # Applied index -> digest of the state.
        self._digests: dict[int, int] = {}

    def fail(self, invariant: str, what: str) -> None:
        self.violations.append(Violation(self._now_ms(), invariant, f"{self._where}{what}"))

    # -- after every event

    def check(self, node: SimNode) -> bool:
        """Looks at a node that something may have happened to. Returns whether anything is not as it was."""
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
        """The disk of that node has this vote from now on."""
        view = self._view(node)
        saved_term, saved_vote = view.vote
        if term < saved_term:
            self.fail("durable term", f"node {node} saved term {term} after {saved_term}")
        if term == saved_term and saved_vote and voted_for != saved_vote:
            self.fail("one vote a term", f"node {node} voted for {saved_vote} and {voted_for} in term {term}")
        view.vote = (term, voted_for)

    def vote_found(self, node: int, term: int, voted_for: int) -> None:
        """A node starts with this vote: as it was saved last, or a newer one that was under way."""
        if (term, voted_for) < self._view(node).vote and term <= self._view(node).vote[0]:
            self.fail("durable vote", f"node {node} starts with {term, voted_for} after {self._view(node).vote}")
        else:
            self.vote_saved(node, term, voted_for)

    def applied(self, node: int, index: int, commit: int, digest: Callable[[], int]) -> None:
        """A node applies the entry at `index`, knowing `commit`; `digest` is that of its state with it."""
        view = self._view(node)
        if index > commit:
            self.fail("applied <= commit", f"node {node} applies {index}, committed is {commit}")
        if index != view.applied + 1:
            self.fail("applied in order", f"node {node} applies {index} after {view.applied}")
        view.applied = index
        if index % DIGEST_EVERY == 0:
            self.same_state(node, index, digest())

    def same_state(self, node: int, applied: int, digest: int) -> None:
        """Equal states at equal applied indexes."""
        known = self._digests.setdefault(applied, digest)
        if known != digest:
            self.fail("State Machine Safety", f"node {node} has another state than others at applied index {applied}")

    def restarted(self, node: int, applied: int = 0) -> None:
        """A new process of that node, which has applied so much (0, or what its snapshot holds)."""
        self._view(node).applied = applied

    def wiped(self, node: int) -> None:
        """The disk is gone, and with it all that this node held; its next life is another voter's."""
        self._views.pop(node, None)

    def kept_by(self, log: SimNodeLog) -> int:
        """Up to where that log has what was committed."""
        kept = min(len(self.committed), log.last_index)
        while kept and log.header(kept).chain != self.committed[kept - 1]:
            kept -= 1
        return kept

    def forgive(self, index: int) -> None:
        """A loss that the run accepts: what was committed after `index` may be gone, and other entries come there."""
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
            self.fail("durable term", f"node {node} starts in term {raft.term}, its disk had {view.vote[0]}")
        view.raft, view.role, view.term, view.commit = raft, Role.FOLLOWER, raft.term, 0

    def _log_changed(self, node: int, view: _View, raft: Raft, log: SimNodeLog) -> None:
        """Compares from where the log differs from what was seen last."""
        chains, last = view.chains, log.last_index
        same = min(len(chains), last)
        while same and log.header(same).chain != chains[same - 1]:
            same -= 1
        if same < view.commit:
            self.fail("committed entries stay", f"node {node} lost entry {same + 1}, which it knew committed")
        if same < len(chains) and raft.role is view.role is Role.LEADER and raft.term == view.term:
            self.fail("Leader Append-Only", f"node {node} leads term {raft.term} and cut its log behind entry {same}")
        del chains[same:]
        self.caught_up += max(0, min(last, len(self.committed)) - view.longest)
        view.longest = max(view.longest, last)
        for index in range(same + 1, last + 1):
            header = log.header(index)
            chains.append(header.chain)
            known = self._chains.setdefault((index, header.term), header.chain)
            if known != header.chain:
                self.fail("Log Matching", f"node {node} has another entry {index} of term {header.term} than was seen")

    def _commit_changed(self, node: int, view: _View, log: SimNodeLog, commit: int) -> None:
        if commit < view.commit:
            self.fail("commit never falls", f"node {node} goes back from {view.commit} to {commit}")
        if commit > log.last_index:
            self.fail("commit <= last_index", f"node {node} knows {commit} committed, its log ends at {log.last_index}")
            commit = log.last_index
        committed, chains = self.committed, view.chains
        for index in range(view.commit + 1, commit + 1):
            if commit <= view.forgiven and chains[index - 1] not in committed[index - 1 : index]:
                return  # it knows of the lost entry still; it must not commit anything behind it
            if index > len(committed):
                committed.append(chains[index - 1])
                self.on_commit(log, index)
            elif committed[index - 1] != chains[index - 1]:
                self.fail("State Machine Safety", f"node {node} commits another entry {index} than was committed")
        view.commit = commit

    def _role_changed(self, node: int, view: _View, raft: Raft) -> None:
        if raft.term < view.term:
            self.fail("term never falls", f"node {node} goes back from term {view.term} to {raft.term}")
        if raft.role is Role.LEADER and (view.role is not Role.LEADER or view.term != raft.term):
            self._elected(node, raft.term, view.chains)
        view.term, view.role = raft.term, raft.role

    def _elected(self, node: int, term: int, chains: list[int]) -> None:
        first = self.leaders.setdefault(term, node)
        if first != node:
            self.fail("Election Safety", f"nodes {first} and {node} both lead term {term}")
        # Only the newest: one of an older term may not have heard that it was replaced, and commits nothing more.
        if term >= self._newest_led:
            self._newest_led = term
            if chains[: len(self.committed)] != self.committed:
                missing = next(
                    (i for i, chain in enumerate(self.committed, 1) if i > len(chains) or chains[i - 1] != chain), 0
                )
                self.fail("Leader Completeness", f"node {node} leads term {term} without committed entry {missing}")
