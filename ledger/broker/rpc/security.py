"""The Security service: the proof of callers, users, rules and delegated tokens."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable, Iterable
from typing import Any

from grpc import aio

from ledger.access.certificate import certificate_content
from ledger.access.password import Verifier
from ledger.access.rules import CLUSTER, Rule, parse_action, parse_resource
from ledger.broker.access.authorizer import Authorizer
from ledger.broker.access.callers import Caller, present_caller
from ledger.broker.access.proofs import PasswordProof, prove_certificate, prove_token
from ledger.broker.access.rocketmq_secrets import RocketmqSecrets
from ledger.broker.access.sessions import SESSION_S, Sessions
from ledger.broker.access.users import Users
from ledger.broker.rpc.refusals import Context, RefusingService, answers
from ledger.errors import AuthenticationError, BusyError, InvalidArgumentError, LedgerError, to_wire
from ledger.state.access_table import AccessTable
from ledger.state.commands import AddUser, GrantRules, RemoveUser, RevokeRules, RotateUser
from ledger.v1 import security_pb2, security_pb2_grpc
from raft.transport.proof_slots import ProofSlots, SlotsTakenError

ProvenUris = Callable[[bytes, bytes, bytes], list[str] | None]

NONCE_BYTES = 32
# Proofs that are in progress on this node, and those of one host.
MAX_PROOFS = 512
MAX_PROOFS_OF_A_HOST = 64
# The whole proof must end within this time.
PROOF_S = 10.0
# The answer to a wrong proof waits, so that passwords are not guessed quickly.
WRONG_S = 0.5
# How long a proof waits for the first administrator of a cluster that has just started.
BEGIN_S = 1.5
# The same at a node without authentication, whose cluster has no users, as a rule.
BEGIN_WITHOUT_S = 0.5
_BEGIN_LOOK_S = 0.05


class SecurityService(RefusingService, security_pb2_grpc.SecurityServicer):
    def __init__(
        self,
        cluster: str,
        authorizer: Authorizer,
        sessions: Sessions,
        users: Users,
        now_ms: Callable[[], int],
        rocketmq: RocketmqSecrets,
        proven_uris: ProvenUris | None = None,
        random_bytes: Callable[[int], bytes] = secrets.token_bytes,
        is_needed: bool = True,
    ) -> None:
        """`proven_uris(certificates, signature, content)` returns the URIs of a certificate that is valid and made the
        signature, or None. Without `proven_uris`, no client proves itself by a certificate. `is_needed`: clients of
        this node must prove who they are."""
        self._is_needed = is_needed
        self._proven_uris = proven_uris
        self._random_bytes = random_bytes
        self._cluster = cluster
        self._authorizer = authorizer
        self._sessions = sessions
        self._users = users
        self._rocketmq = rocketmq
        self._now_ms = now_ms
        self._slots = ProofSlots(MAX_PROOFS, MAX_PROOFS_OF_A_HOST)

    # -- proofs

    async def Authenticate(self, request_iterator: Any, context: Context) -> None:  # noqa: N802 (gRPC names)
        try:
            async with self._slots.taken(context.peer(), PROOF_S):
                await self._prove(context)
        except TimeoutError:
            late = f"the proof was not complete within {PROOF_S:.0f} s, or others began too many proofs: try again"
            await _refuse(context, AuthenticationError(late))
        except SlotsTakenError:
            await _refuse(context, BusyError("too many callers prove who they are at the moment: try again shortly"))
        except LedgerError as error:
            if isinstance(error, AuthenticationError):
                # The slot is held even if the caller does not wait for the answer, so guesses stay slow.
                self._slots.hold(context.peer(), WRONG_S)
                await asyncio.sleep(WRONG_S)
            await _refuse(context, error)

    async def _begun_access(self) -> AccessTable:
        """Return the users. In a cluster that has just started, wait for its first administrator: until then, the right
        password would seem to be wrong. Raises UnavailableError at once if this node cannot know the users, so that the
        caller tries another node."""
        for _ in range(round((BEGIN_S if self._is_needed else BEGIN_WITHOUT_S) / _BEGIN_LOOK_S)):
            if self._authorizer.access.has_begun:
                break
            await asyncio.sleep(_BEGIN_LOOK_S)
        else:
            if not self._is_needed:
                raise AuthenticationError(
                    "this cluster has no users, because its nodes run without `authentication`: leave out the user and "
                    "the password, or the client certificate"
                )
        return self._authorizer.fresh_access()

    async def _prove(self, context: Context) -> None:
        request = await _next(context)
        access = await self._begun_access()
        match request.WhichOneof("proof"):
            case "scram":
                proof = PasswordProof(access, self._random_bytes)
                await context.write(security_pb2.AuthenticateResponse(scram=proof.first(request.scram)))
                caller, answer = proof.final((await _next(context)).scram)
            case "delegated_token":
                caller, answer = prove_token(request.delegated_token, access, self._now_ms()), ""
            case "certificate_nonce":
                caller, answer = await self._prove_certificate(request.certificate_nonce, context), ""
            case _:
                raise InvalidArgumentError("the proof has no content: upgrade the client")
        self._authorizer.check_caller(caller)
        token = self._sessions.open(caller, context.peer())
        await context.write(
            security_pb2.AuthenticateResponse(
                scram=answer, token=token, expires_in_ms=round(SESSION_S * 1000), user=caller.user
            )
        )

    async def _prove_certificate(self, client_nonce: bytes, context: Context) -> Caller:
        nonce = self._random_bytes(NONCE_BYTES)
        await context.write(security_pb2.AuthenticateResponse(nonce=nonce, cluster=self._cluster))
        proof = (await _next(context)).certificate
        if self._proven_uris is None or len(client_nonce) != NONCE_BYTES:
            raise AuthenticationError("this node knows no authority that signs client certificates: use a password")
        content = certificate_content(self._cluster, client_nonce, nonce)
        uris = self._proven_uris(proof.certificates, proof.signature, content)
        return prove_certificate(uris or [], self._cluster, self._authorizer.fresh_access())

    # -- users and rules

    @answers(security_pb2.ListUsersResponse)
    async def ListUsers(  # noqa: N802
        self, request: security_pb2.ListUsersRequest, response: security_pb2.ListUsersResponse
    ) -> None:
        access = await self._users.read()
        for name, user in sorted(access.users.items()):
            response.users.add(
                name=name,
                has_password=user.verifier is not None,
                rules=len(access.rules(name)),
                has_rocketmq_secret=bool(user.rocketmq_secret),
            )

    @answers(security_pb2.AddUserResponse)
    async def AddUser(  # noqa: N802
        self, request: security_pb2.AddUserRequest, response: security_pb2.AddUserResponse
    ) -> None:
        await self._users.change(AddUser(request.name, verifier_of(request)))

    @answers(security_pb2.RotateUserResponse)
    async def RotateUser(  # noqa: N802
        self, request: security_pb2.RotateUserRequest, response: security_pb2.RotateUserResponse
    ) -> None:
        """Replace the password of a user. Every user may replace its own password."""
        self._check_own(request.name)
        await self._users.change(RotateUser(request.name, verifier_of(request)))

    @answers(security_pb2.RemoveUserResponse)
    async def RemoveUser(  # noqa: N802
        self, request: security_pb2.RemoveUserRequest, response: security_pb2.RemoveUserResponse
    ) -> None:
        await self._users.change(RemoveUser(request.name))

    @answers(security_pb2.GrantRulesResponse)
    async def GrantRules(  # noqa: N802
        self, request: security_pb2.GrantRulesRequest, response: security_pb2.GrantRulesResponse
    ) -> None:
        await self._users.change(GrantRules(rules_of(request.rules)))

    @answers(security_pb2.RevokeRulesResponse)
    async def RevokeRules(  # noqa: N802
        self, request: security_pb2.RevokeRulesRequest, response: security_pb2.RevokeRulesResponse
    ) -> None:
        response.revoked = await self._users.change(RevokeRules(rules_of(request.rules)))

    @answers(security_pb2.ListRulesResponse)
    async def ListRules(  # noqa: N802
        self, request: security_pb2.ListRulesRequest, response: security_pb2.ListRulesResponse
    ) -> None:
        access = await self._users.read()
        if request.user:
            access.require(request.user)
        rules = access.rules(request.user) if request.user else access.all_rules()
        response.rules.extend(map(rule_on_the_wire, rules))

    @answers(security_pb2.TestRightResponse)
    async def TestRight(  # noqa: N802
        self, request: security_pb2.TestRightRequest, response: security_pb2.TestRightResponse
    ) -> None:
        resource = parse_resource(request.resource)
        action = parse_action(request.action, resource)
        await self._users.read()
        response.allowed, rule = self._authorizer.verdict(request.user, action, resource)
        if rule is not None:
            response.rule.CopyFrom(rule_on_the_wire(rule))

    @answers(security_pb2.DelegateTokenResponse)
    async def DelegateToken(  # noqa: N802
        self, request: security_pb2.DelegateTokenRequest, response: security_pb2.DelegateTokenResponse
    ) -> None:
        caller: Caller = present_caller()
        response.token, response.expires_ms = await self._users.delegate(
            caller, rules_of(request.rules), request.ttl_ms
        )

    @answers(security_pb2.MakeRocketmqSecretResponse)
    async def MakeRocketmqSecret(  # noqa: N802
        self, request: security_pb2.MakeRocketmqSecretRequest, response: security_pb2.MakeRocketmqSecretResponse
    ) -> None:
        """Make a RocketMQ secret. Every user may make its own."""
        self._check_own(request.name)
        response.secret = await self._rocketmq.make(request.name)
        response.access_key = request.name

    @answers(security_pb2.RemoveRocketmqSecretResponse)
    async def RemoveRocketmqSecret(  # noqa: N802
        self, request: security_pb2.RemoveRocketmqSecretRequest, response: security_pb2.RemoveRocketmqSecretResponse
    ) -> None:
        self._check_own(request.name)
        await self._rocketmq.remove(request.name)

    def _check_own(self, user: str) -> None:
        """Raise PermissionDeniedError unless the caller is this user, by its own proof, or an administrator."""
        caller = present_caller()
        if caller.user != user or caller.token is not None:
            self._authorizer.check(caller, "administer", CLUSTER)


async def _next(context: Context) -> security_pb2.AuthenticateRequest:
    """Return the caller's next message. Raises AuthenticationError if the caller ends the proof."""
    request = await context.read()
    if request is aio.EOF:
        raise AuthenticationError("the caller ended the proof")
    proof: security_pb2.AuthenticateRequest = request
    return proof


async def _refuse(context: Context, error: LedgerError) -> None:
    await context.write(security_pb2.AuthenticateResponse(error=to_wire(error)))


def verifier_of(request: Any) -> Verifier | None:
    """Return the verifier in a request, or None if the user gets no password."""
    if not request.HasField("verifier"):
        return None
    wire = request.verifier
    return Verifier(wire.salt, wire.iterations, wire.stored_key, wire.server_key)


def rules_of(rules: Iterable[security_pb2.AclRule]) -> tuple[Rule, ...]:
    return tuple(Rule(rule.user, rule.action, rule.resource, rule.deny) for rule in rules)


def rule_on_the_wire(rule: Rule) -> security_pb2.AclRule:
    return security_pb2.AclRule(user=rule.user, action=rule.action, resource=rule.resource, deny=rule.deny)
