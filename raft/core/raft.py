"""Implements one server of a shard as a pure state machine. The inputs of the state machine are messages and ticks.
The output of the state machine is `Ready`.

    driver                                   core
      step(message), tick(), propose(sizes), read(token), unreachable(peer)
                                        -->  decides
      while ready := raft.ready():      <--  Ready: messages, save, write, no_op, commit, reads, role
          handle it completely
      for append in raft.appends(): ... <--  what followers can be sent now; once a turn, after the writes
      vote_saved(token), persisted(token, term, index), own_write(last) -> token
                                        -->  what has become durable

The core decides, and the driver carries out the decisions. A message leaves a server only after everything that the
message promises is durable.

The driver must follow the rules below:

- After every call of step, tick, propose or read, the driver calls ready() until ready() returns None.
- The driver may call vote_saved, persisted and own_write at any time, also while it handles a Ready. After each of
  these three calls, too, the driver calls ready(). - The core counts the whole log as held when the server starts. If
  the flush mode promises that entries survive a power loss, the driver must flush the log before it builds the server.

Calls:

- step(message)             takes any message for this node, also an old or repeated message.
- forked(append, i, chain)  comes instead of step(append), if the leader's log has the same term as this log at index i,
                            and other bytes up to there.
- contradicted(chunk, term) comes instead of step(chunk), if this node has committed another entry than the snapshot's
                            last one.
- held_up()                 comes before any other call, if this node did nothing for longer than an election takes.
- propose(sizes)            returns (term, first index). Raises Refusal. The driver writes the entries in the same turn.
- change(configuration, size) does the same for one configuration entry.
- own_write(last)           returns a token, after the leader has written a no-op or proposals up to index `last`.
- persisted(token, t, i)    says that the writes up to `token` are held as the flush mode promises. The last entry of
                            these writes has index i and term t. One call may report several writes, by the newest
                            token that was written when the flush began.
- write_failed(last)        says that the disk refused the entries after index `last`. The server cuts its log to `last`
                            and stops leading. The server does not stand for election or accept entries until
                            resume_writing().
- room_changed(has_room)    says whether the disk has room for new data. Without room the server accepts entries, hands
                            leadership over, and stands for election only after the other voters.
- appends()                 may return an empty Append (last_index == prev_index, no bytes). An empty Append asks the
                            follower whether the logs agree at prev_index, and the follower answers it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from raft.core.candidate import PRE_VOTE, Campaign, Candidate
from raft.core.configuration import Configuration
from raft.core.divergence import CommittedEntry, Divergence, Divergences
from raft.core.election_timer import ElectionTimer
from raft.core.errors import NotLeader
from raft.core.follower import Follower
from raft.core.leader import Leader
from raft.core.log_terms import LogTerms
from raft.core.message_checks import check
from raft.core.messages import (
    Append,
    AppendResponse,
    Heartbeat,
    HeartbeatResponse,
    RaftMessage,
    SnapshotChunk,
    SnapshotResponse,
    TimeoutNow,
    VoteRequest,
    VoteResponse,
)
from raft.core.progress import FollowerProgress
from raft.core.ready import Ready, Role, RoleChange
from raft.core.server import Server
from raft.core.settings import RaftSettings, RecoveredState
from raft.core.voting import grants


class Raft:
    """`Raft` is one server of a shard. The methods of `Raft` never wait, and do no I/O."""

    def __init__(self, settings: RaftSettings, recovered: RecoveredState) -> None:
        self.settings = settings
        self._server = Server(settings.node, recovered, settings.feature_level)
        self._role: Follower | Candidate | Leader = Follower(self._server, self._new_timer(), leader=0)
        # The index of a no-op that the next Ready asks for.
        self._no_op: int | None = None
        # What the driver learned from the last Ready.
        self._reported_commit = recovered.commit
        self._reported_role = self._role_change()
        self._reported_configuration = self._configuration_state()
        self._reported_suspect = self.is_suspect
        self._reported_divergences = self._server.divergences

    # -- the state of this server

    @property
    def node(self) -> int:
        return self._server.node

    @property
    def role(self) -> Role:
        return self._role.role

    @property
    def term(self) -> int:
        return self._server.term

    @property
    def voted_for(self) -> int:
        return self._server.voted_for

    @property
    def leader(self) -> int:
        """Return the node id of the leader of this term, or 0 if the leader is unknown."""
        return self._role.leader

    @property
    def commit(self) -> int:
        return self._server.commit

    @property
    def first_heard_commit(self) -> int | None:
        """Return up to which index the leader of this term had committed when it sent its first Append to this server
        since the start of the process. Return None if this server had no Append of this leader."""
        term, commit = self._server.first_append
        return commit if term == self._server.term else None

    @property
    def durable(self) -> int:
        return self._server.durable

    @property
    def log(self) -> LogTerms:
        """Return the terms of this server's log. Callers must not change the returned object."""
        return self._server.log

    @property
    def configuration(self) -> Configuration:
        return self._server.configurations.newest

    @property
    def configuration_index(self) -> int:
        """Return the index of the newest configuration's entry, or 0 if the log has no configuration."""
        return self._server.configurations.newest_index

    @property
    def is_suspect(self) -> bool:
        return self._server.suspicion != 0

    @property
    def divergences(self) -> Divergences:
        """Return the divergences from other servers by node id (see divergence.py)."""
        return self._server.divergences

    @property
    def is_unacknowledged(self) -> bool:
        """Return True if this leader cannot commit, because followers that answer heartbeats acknowledge nothing, and
        perhaps because others are not heard."""
        return isinstance(self._role, Leader) and self._role.is_unacknowledged

    @property
    def transferring_to(self) -> int:
        """Return the node to which this leader hands leadership over, or 0 if there is no handover."""
        return self._role.transferring_to if isinstance(self._role, Leader) else 0

    @property
    def preferred_leader(self) -> int:
        """Return the voter to which any other leader hands leadership over when it can, or 0 if there is none."""
        voters = self._server.voters
        return self.settings.prefer(voters) if voters else 0

    @property
    def progress(self) -> Mapping[int, FollowerProgress]:
        """Return the progress of each follower by node id, if this server leads. If this server does not lead,
        return an empty mapping. Callers must not change the returned objects."""
        return self._role.progress if isinstance(self._role, Leader) else {}

    @property
    def silent_ticks(self) -> dict[int, int]:
        """Return by node id how many ticks ago each other member was last heard, if this server leads. If this server
        does not lead, return an empty dict."""
        return {node: self._server.ticks - progress.heard_at for node, progress in self.progress.items()}

    def hears(self, node: int, *, within: int = 1) -> bool:
        """Return True if this server leads, and heard the other member within so many election timeouts."""
        silent = self.silent_ticks.get(node)
        return silent is not None and silent < within * self.settings.timing.election_ticks

    @property
    def supported_feature_level(self) -> int:
        """Return the highest feature level that the programs of all members support, as far as this leader knows.
        Return 0 if this server does not lead."""
        return self._role.supported_feature_level if isinstance(self._role, Leader) else 0

    @property
    def uncommitted_bytes(self) -> int:
        """Return the bytes of this leader's proposals that are not committed. Return 0 if this server does not
        lead."""
        return self._role.uncommitted_bytes if isinstance(self._role, Leader) else 0

    # -- inputs

    def step(self, message: RaftMessage) -> None:
        """Handle a message to this server. Raises InvalidMessage if no correct server can have sent the message."""
        assert message.receiver == self.node, f"node {self.node} was given a message for {message.receiver}"
        check(message, self._server, self._role)
        match message:
            case VoteRequest():
                self._on_vote_request(message)
            case VoteResponse():
                self._on_vote_response(message)
            case Append():
                if self._follow(message):
                    self._as_follower().on_append(message)
                else:
                    self._send(AppendResponse(*self._to(message), rejected=True))
            case Heartbeat():
                if self._follow(message):
                    self._as_follower().on_heartbeat(message)
                else:
                    self._send(HeartbeatResponse(*self._to(message), round=0))
            case SnapshotChunk():
                if self._follow(message):
                    self._as_follower().on_chunk(message)
                else:
                    self._send(SnapshotResponse(*self._to(message), index=0, received=0))
            case AppendResponse():
                if leader := self._answered_leader(message):
                    self._become(leader.on_append_response(message))
            case HeartbeatResponse():
                if leader := self._answered_leader(message):
                    self._become(leader.on_heartbeat_response(message))
            case SnapshotResponse():
                if leader := self._answered_leader(message):
                    self._become(leader.on_snapshot_response(message))
            case TimeoutNow():
                if self._follow(message) and self._server.may_stand:
                    self._become(self._stand(Campaign(transfer=True)))
            case _:
                raise AssertionError(f"no such message: {message}")

    def forked(self, append: Append, index: int, chain: int) -> None:
        """Report that the logs of this Append's leader and of this server have the same term at `index`, and other
        bytes up to there. `chain` is the chain of this log up to the index `provable_fork(index)`, which the leader can
        compare with its own log."""
        check(append, self._server, self._role)
        if self._follow(append):
            term, provable = self.log.term(index), self.provable_fork(index)
            committed = CommittedEntry(provable, self.log.term(provable), chain)
            self._as_follower().diverge(Divergence(append.sender, index, term, term, committed))

    def provable_fork(self, index: int) -> int:
        """Return the index of the committed entry that this server names to a leader whose log has other bytes up to
        `index`. The leader has this entry too: its log can end before the commit index of this server."""
        return min(index, self.commit)

    def contradicted(self, chunk: SnapshotChunk, term: int) -> None:
        """Report that the leader's snapshot ends with an entry of `term`, and that this node has committed an entry of
        another term at this index."""
        check(chunk, self._server, self._role)
        if self._follow(chunk):
            follower = self._as_follower()
            follower.diverge(follower.divergence_at(chunk.sender, chunk.index, term))

    def tick(self) -> None:
        """Count one tick of Raft's clock."""
        self._server.ticks += 1
        self._become(self._role.tick())

    def propose(self, sizes: Sequence[int]) -> tuple[int, int]:
        """Append one new entry for each element of `sizes`, which are sizes in bytes. Return the term and the index
        of the first new entry. Raises Refusal."""
        return self.term, self._as_leader().propose(sizes)

    def change(self, configuration: Configuration, size: int) -> tuple[int, int]:
        """Append a configuration entry of this size (bytes), which takes effect at once. Return the term and the
        index of the configuration entry."""
        return self.term, self._as_leader().change(configuration, size)

    def transfer(self, to: int) -> None:
        """Hand leadership to the voter `to`. Raise NotLeader or TransferRefused if no handover can begin. A
        handover that has begun can still fail after this call."""
        self._as_leader().transfer(to)

    def held_up(self) -> None:
        """Report that nothing ran on this node for longer than an election takes. If this node leads, it must
        confirm its leadership again."""
        if isinstance(self._role, Leader):
            self._role.held_up()

    def accept_loss(self) -> None:
        """Accept the loss of entries on this node, as an operator decided: the node votes again, and its
        acknowledgements count (see suspicion.py)."""
        self._server.suspicion = 0

    def read(self, token: int) -> None:
        """Request the index that must be applied before a linearizable read is answered.

        A later Ready has, in `reads`, this token and the index that must be applied before the read is answered. If
        this node stops leading before the Ready with the index, the read gets no index."""
        self._as_leader().read(token)

    def unreachable(self, peer: int) -> None:
        """Report that the stream to a peer broke, so messages in flight on it may be lost."""
        if isinstance(self._role, Leader):
            self._role.unreachable(peer)

    # -- what has become durable

    def vote_saved(self, token: int) -> None:
        """Report that the Save with this token is on the disk."""
        self._server.vote_saved(token)
        if isinstance(self._role, Candidate) and self._server.is_saved:
            self._become(self._role.on_vote_saved())

    def own_write(self, last_index: int) -> int:
        """Report that this leader's entries up to `last_index` are written. Return the token for `persisted`."""
        leader = self._as_leader()
        leader.wrote(last_index)
        return self._server.next_token()

    def persisted(self, token: int, term: int, index: int) -> None:
        """Report that the writes up to `token` are as durable as the flush mode promises. The last entry that these
        writes wrote has this term and index."""
        if not self._server.persisted(token, term, index):
            return
        if isinstance(self._role, Leader):
            self._become(self._role.count())
        elif isinstance(self._role, Follower):
            self._role.on_persisted()

    def write_failed(self, last_index: int) -> None:
        """Report that the disk refused the entries after `last_index`. The server cuts the log after `last_index`, and
        stops leading. A leader asks a voter that holds the rest of the log to stand for election at once.

        The cut entries were neither sent nor acknowledged, so no other server can have them. A leader never leads
        the same term twice, so no other entry gets the index and term of a cut entry."""
        self._server.writable = False
        self._server.cut(last_index)
        self._no_op = None
        if isinstance(self._role, Follower):
            self._role.on_cut()
        else:
            self._become(self._role.leave() if isinstance(self._role, Leader) else Role.FOLLOWER)

    def resume_writing(self) -> None:
        """Report that the disk accepts writes again. From now on, this server is allowed to stand for election and
        to accept entries."""
        self._server.writable = True

    def room_changed(self, has_room: bool) -> None:
        """Report whether the disk has room for new data. Without room, this server accepts the entries of its leader.
        As the leader it hands leadership to a voter with room. It stands for election only after the other voters."""
        self._server.has_room = has_room

    @property
    def takes_writes(self) -> bool:
        """Return True if clients could write to this server if it were the leader: its disk works and has room."""
        return self._server.takes_writes

    def step_down(self) -> None:
        """Stop leading, and ask a voter that holds the whole log to stand for election. If this server does not lead,
        do nothing."""
        if isinstance(self._role, Leader):
            self._become(self._role.leave())

    def stop_applying(self) -> None:
        """Report that the state machine cannot apply the next committed entry, and never will. If this server leads, it
        hands leadership over. From now on this server votes and holds entries, and does not stand for election."""
        self._server.can_apply = False
        if isinstance(self._role, Leader):
            self._become(self._role.leave())
        elif isinstance(self._role, Candidate):
            self._become(Role.FOLLOWER)

    # -- the start of the log (section 7)

    def log_starts_behind(self, index: int) -> None:
        """Report that the log now begins after entry `index`, which is committed."""
        self._server.log_starts_behind(index)

    def snapshot_received(self, chunk: SnapshotChunk, received: int) -> None:
        """Report that this node has the first `received` bytes of the snapshot whose chunk the core passed to the
        driver."""
        if isinstance(self._role, Follower) and chunk.term == self.term:
            self._role.answer_chunk(chunk, received=received, installed=False)

    def installed(self, chunk: SnapshotChunk, term: int, configuration: Configuration) -> None:
        """Report that the snapshot whose chunk the core passed to the driver has replaced the log. The entry at the
        snapshot's index has `term`."""
        self._server.install(chunk.index, term, configuration)
        self._as_follower().answer_chunk(chunk, received=0, installed=True)

    # -- outputs

    def ready(self) -> Ready | None:
        """Return the work that the driver must do next, or None if there is no work."""
        if not self._has_news():
            return None
        if isinstance(self._role, Leader):
            self._role.start_reads()
        messages, save, write = self._server.take_messages(), self._server.take_save(), self._server.take_write()
        no_op, commit, role = self._take_no_op(), self._take_commit(), self._take_role()
        reads = self._role.take_reads() if isinstance(self._role, Leader) else ()
        configuration, trusted = self._take_configuration(), self._take_trusted()
        chunk, reopen, diverged = self._server.take_chunk(), self._server.take_reopened(), self._take_diverged()
        nothing_written = not (messages or save or write or no_op or commit or reads)
        if nothing_written and not (role or trusted or chunk or configuration or reopen or diverged):
            return None
        return Ready(
            messages=messages,
            save=save,
            write=write,
            no_op=no_op,
            commit=commit,
            reads=reads,
            role=role,
            configuration=configuration,
            chunk=chunk,
            trusted=trusted,
            reopen=reopen,
            diverged=diverged,
        )

    def _has_news(self) -> bool:
        """Return True if there may be work for the driver. This quick check runs after every event."""
        server, role, reported = self._server, self._role, self._reported_role
        return (
            server.commit != self._reported_commit
            or server.has_output
            or self._no_op is not None
            or reported.term != server.promise.term
            or reported.role is not role.role
            or reported.leader != role.leader
            or self._reported_configuration[0] != server.configurations.newest_index
            or self._reported_suspect != (server.suspicion != 0)
            or self._reported_divergences is not server.divergences
            or (isinstance(role, Leader) and role.has_reads)
        )

    def appends(self) -> list[Append | SnapshotChunk]:
        """Return the Appends that the limits of flow control allow this leader to send now. The driver calls
        `appends` once in each turn, after it has carried out the writes of all Readys."""
        return list(self._role.appends()) if isinstance(self._role, Leader) else []

    def _take_no_op(self) -> int | None:
        no_op, self._no_op = self._no_op, None
        return no_op

    def _take_commit(self) -> int | None:
        if self.commit == self._reported_commit:
            return None
        self._reported_commit = self.commit
        return self.commit

    def _take_role(self) -> RoleChange | None:
        reported = self._reported_role
        if reported.term == self.term and reported.leader == self.leader and reported.role is self.role:
            return None
        self._reported_role = self._role_change()
        return self._reported_role

    def _role_change(self) -> RoleChange:
        accepts_loss = isinstance(self._role, Leader) and self._role.accepts_loss
        was_unacknowledged = self.role is Role.FOLLOWER and self.leader == 0 and self._server.yields
        return RoleChange(self.role, self.term, self.leader, accepts_loss, was_unacknowledged)

    def _take_configuration(self) -> bool:
        was, self._reported_configuration = self._reported_configuration, self._configuration_state()
        return was != self._reported_configuration

    def _configuration_state(self) -> tuple[int, bool]:
        """Return the index of the newest configuration, and whether that configuration is committed."""
        return self.configuration_index, self.configuration_index <= self.commit

    def _take_trusted(self) -> bool:
        was, self._reported_suspect = self._reported_suspect, self.is_suspect
        return was and not self.is_suspect

    def _take_diverged(self) -> bool:
        was, self._reported_divergences = self._reported_divergences, self._server.divergences
        return was is not self._reported_divergences

    # -- terms (section 5.1)

    def _follow(self, message: Append | SnapshotChunk | Heartbeat | TimeoutNow) -> bool:
        """Follow the sender if its term is at least this server's term. Return True if this server follows the
        sender. If this server does not follow, the sender is a leader of an older term. In this case the caller
        sends an answer without content, so that the sender learns the newer term. The answer must have no content,
        because the sender may lead the newer term when the answer arrives. An answer with content would then look
        like an answer to a message of the newer term."""
        if message.term < self.term:
            return False
        assert self.role is not Role.LEADER or message.term > self.term, f"two leaders in term {self.term}"
        if message.term > self.term:
            self._enter(message.term, leader=message.sender)
        elif not isinstance(self._role, Follower):
            self._become_follower(message.sender)
        return True

    def _answered_leader(self, message: AppendResponse | SnapshotResponse | HeartbeatResponse) -> Leader | None:
        """Return this server's Leader if it still leads the term of this answer. If this server no longer leads
        that term, return None."""
        if message.term > self.term:
            self._enter(message.term)
        return self._role if isinstance(self._role, Leader) and message.term == self.term else None

    def _on_vote_request(self, request: VoteRequest) -> None:
        if request.term > self.term:
            if self._role.hears_leader and not request.transfer:
                return
            if not request.pre:
                self._enter(request.term)
        granted = grants(self._server, request, self.leader)
        if granted and not request.pre:
            self._server.vote(request.sender)
            if isinstance(self._role, Follower):
                self._role.voted()
        node, candidate, term = self._to(request)
        answered = request.term if granted else term
        self._send(VoteResponse(node, candidate, answered, granted, request.pre, self._server.suspicion))

    def _on_vote_response(self, response: VoteResponse) -> None:
        would_vote = response.pre and response.granted
        if response.term > self.term and not would_vote:
            self._enter(response.term)
        elif response.term == self.term + would_vote and isinstance(self._role, Candidate):
            self._become(self._role.on_vote_response(response))

    # -- roles

    def _enter(self, term: int, leader: int = 0) -> None:
        self._server.enter(term)
        self._become_follower(leader)

    def _become(self, role: Role | None) -> None:
        """Change to `role`, and then to every role that follows at once from the new role. If this server is the
        only voter of its shard, one call leads from follower to leader."""
        while role is not None:
            role = self._take_on(role)

    def _take_on(self, role: Role) -> Role | None:
        """Change to `role`. Return the role that follows at once from the new role, or None."""
        match role:
            case Role.FOLLOWER:
                self._become_follower(leader=0)
            case Role.PRE_CANDIDATE:
                return self._stand(PRE_VOTE)
            case Role.CANDIDATE:
                assert isinstance(self._role, Candidate)
                return self._stand(Campaign(unanimous=self._role.needs_all))
            case Role.LEADER:
                self._become_leader()
        return None

    def _become_follower(self, leader: int) -> None:
        self._role = Follower(self._server, self._new_timer(), leader)

    def _stand(self, campaign: Campaign) -> Role | None:
        if not campaign.pre:
            self._server.enter(self.term + 1, voted_for=self.node)
        candidate = Candidate(self._server, self._new_timer(), campaign)
        self._role = candidate
        return candidate.stand()

    def _become_leader(self) -> None:
        assert isinstance(self._role, Candidate)
        leader = Leader(self._server, self.settings, accepts_loss=self._role.campaign.unanimous)
        self._server.suspicion = 0  # the log of an elected leader is the log of the shard
        self._role, self._no_op = leader, leader.no_op
        leader.begin_round()

    def _as_follower(self) -> Follower:
        assert isinstance(self._role, Follower)
        return self._role

    def _as_leader(self) -> Leader:
        if not isinstance(self._role, Leader):
            raise NotLeader(self.leader)
        return self._role

    def _new_timer(self) -> ElectionTimer:
        return ElectionTimer(self.settings.timing, self.settings.jitter)

    def _to(self, message: RaftMessage) -> tuple[int, int, int]:
        """Return the sender, receiver and term of an answer to `message`."""
        return self.node, message.sender, self.term

    def _send(self, message: RaftMessage) -> None:
        self._server.send(message)
