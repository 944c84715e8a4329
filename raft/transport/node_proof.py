"""Proves that caller and receiver of a connection are nodes of one cluster, before they say anything else.

    caller    begin: cluster, sender, receiver, nonce a   ──>   receiver
    caller    <──   challenge: nonce b, the receiver's proof
    caller    answer: the caller's proof                  ──>   receiver
    caller    <──   a token for the calls on this connection

Both proofs are over the cluster, both node numbers, both nonces and the role of the prover. So a proof is of no use in
another exchange, for another node, or when it is sent back to its author. `Credentials` makes and judges the proofs: by
the cluster secret (cluster_secret.py), or by certificates. Every stream and every call proves anew, because a token
belongs to one TCP connection and ends soon.

Without credentials a node proves nothing and asks for no proof.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import secrets
import struct
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import grpc
from grpc import aio

from raft.transport.proof_slots import ProofSlots
from raft.v1 import raft_pb2, raft_pb2_grpc

Metadata = tuple[tuple[str, str], ...]

TOKEN_KEY = "ledgermq-proof"
NONCE_BYTES = 32
# Name servers prove themselves with this node number.
NAME_SERVER = 0
PROOF_S = 5.0
TOKEN_S = 30.0
# Tokens and unfinished proofs of one node. The oldest one ends when there are more.
MAX_TOKENS = 10_000
MAX_PROOFS = 256
MAX_PROOFS_OF_A_HOST = 128


class Proof(NamedTuple):
    """What a caller proves with: a MAC, or certificates with a signature. The other fields are empty."""

    mac: bytes = b""
    certificates: bytes = b""
    signature: bytes = b""


class Credentials(Protocol):
    """An interface: makes and judges proofs. `content` is what a proof is over."""

    def receiver_macs(self, content: bytes) -> list[bytes]:
        """Return the receiver's own proofs; none if TLS has proven the receiver."""

    def accepts_receiver(self, content: bytes, macs: list[bytes]) -> bool:
        """Return True if one of the receiver's proofs is right, or if TLS has proven the receiver."""

    def caller_proof(self, content: bytes) -> Proof: ...

    def flaw_of_caller(self, content: bytes, proof: Proof, sender: int) -> str:
        """Return why the proof does not show that the caller is the node `sender`, or "" if it does."""


class UnprovenError(Exception):
    """The other node did not prove itself, or refused the proof of this node. The message says why."""


@dataclass(frozen=True, slots=True)
class _Token:
    node: int
    peer: str
    expires_s: float


class NodeProofs(raft_pb2_grpc.NodeProofServicer):
    """The proofs of one node, as caller and as receiver. As receiver it is the gRPC service `NodeProof`."""

    def __init__(
        self,
        cluster: str | None,
        node: int,
        credentials: Credentials | None,
        monotonic_s: Callable[[], float] = time.monotonic,
    ) -> None:
        """A name server has the node number 0, and no cluster of its own."""
        self._cluster = cluster
        self._node = node
        self._credentials = credentials
        self._monotonic_s = monotonic_s
        self._slots = ProofSlots(MAX_PROOFS, MAX_PROOFS_OF_A_HOST)
        # By the SHA-256 of the token, the oldest first.
        self._tokens: dict[bytes, _Token] = {}

    @property
    def are_needed(self) -> bool:
        return self._credentials is not None

    # -- as caller

    async def prove(self, channel: aio.Channel, node: int) -> Metadata:
        """Prove to `node` who this node is, and return the metadata for the next call on this channel. Raises
        UnprovenError, and AioRpcError if the node cannot be reached."""
        credentials = self._credentials
        if credentials is None:
            return ()
        begin = raft_pb2.ProofBegin(
            cluster=self._cluster or "", sender=self._node, receiver=node, nonce=secrets.token_bytes(NONCE_BYTES)
        )
        stream: Any = raft_pb2_grpc.NodeProofStub(channel).Prove(timeout=PROOF_S)
        try:
            challenge = (await _answer_to(raft_pb2.ProofMessage(begin=begin), stream)).challenge
            if len(challenge.nonce) != NONCE_BYTES or not credentials.accepts_receiver(
                _content(b"receiver", begin, challenge.nonce), list(challenge.macs)
            ):
                raise UnprovenError(f"node {node} did not prove that it is of this cluster: compare the secrets")
            proof = credentials.caller_proof(_content(b"caller", begin, challenge.nonce))
            answer = raft_pb2.ProofMessage(answer=raft_pb2.ProofAnswer(**proof._asdict()))
            token = (await _answer_to(answer, stream)).token.token
        finally:
            stream.cancel()
        return ((TOKEN_KEY, token),)

    # -- as receiver

    async def Prove(self, request_iterator: Any, context: aio.ServicerContext[Any, Any]) -> None:  # noqa: N802 (gRPC)
        await self.serve(context)

    async def serve(self, context: aio.ServicerContext[Any, Any]) -> None:
        """Judge the proof of a caller, and give the caller a token."""
        if self._credentials is None:
            await context.abort(
                grpc.StatusCode.FAILED_PRECONDITION,
                "this node has no cluster secret and no certificate: give all nodes the same kind of proof",
            )
        try:
            async with self._slots.taken(context.peer(), PROOF_S):
                flaw = await self._judge(context, self._credentials)
        except TimeoutError:
            flaw = f"the proof was not complete within {PROOF_S:.0f} s, or others began too many proofs: try again"
        if flaw:
            await context.abort(grpc.StatusCode.UNAUTHENTICATED, flaw)

    async def _judge(self, context: aio.ServicerContext[Any, Any], credentials: Credentials | None) -> str:
        """Return why the caller is refused, or "" after the caller got a token."""
        assert credentials is not None, "serve has checked it"
        begin = (await _message(context)).begin
        if self._cluster is not None and begin.cluster != self._cluster:
            return f"this node is of cluster {self._cluster!r}, not {begin.cluster!r}"
        if begin.receiver != self._node:
            return f"this is node {self._node}, not node {begin.receiver}"
        # A node can call itself, when it became a leader after it looked for one.
        if begin.sender == 0 or len(begin.nonce) != NONCE_BYTES:
            return "the proof is malformed"
        nonce = secrets.token_bytes(NONCE_BYTES)
        macs = credentials.receiver_macs(_content(b"receiver", begin, nonce))
        await context.write(raft_pb2.ProofMessage(challenge=raft_pb2.ProofChallenge(nonce=nonce, macs=macs)))
        answer = (await _message(context)).answer
        proof = Proof(answer.mac, answer.certificates, answer.signature)
        if flaw := credentials.flaw_of_caller(_content(b"caller", begin, nonce), proof, begin.sender):
            return flaw
        token = self._new_token(begin.sender, context.peer())
        await context.write(raft_pb2.ProofMessage(token=raft_pb2.ProofToken(token=token)))
        return ""

    def refusal(self, context: aio.ServicerContext[Any, Any], sender: int) -> str:
        """Return why this call is not one of the node `sender`, or "" if it is, or if no proof is needed."""
        if self._credentials is None:
            return ""
        node = self.node_of(context)
        if node == 0:
            return "the call has no valid proof of a node of this cluster"
        return "" if node == sender else f"node {node} speaks in the name of node {sender}"

    def node_of(self, context: aio.ServicerContext[Any, Any]) -> int:
        """Return the node that has proven itself for this call, or 0."""
        for key, value in context.invocation_metadata() or ():
            if key == TOKEN_KEY:
                known = self._tokens.get(_digest(str(value)))
                if known is not None and known.peer == context.peer() and known.expires_s > self._monotonic_s():
                    return known.node
        return 0

    def proven_peers(self) -> set[str]:
        """Return the connections on which nodes have proven themselves within the last `TOKEN_S` at least."""
        return {token.peer for token in self._tokens.values()}

    def end(self, peers: Iterable[str]) -> None:
        """End the tokens of connections that have ended: a later connection can have the same port."""
        ended = frozenset(peers)
        self._tokens = {digest: token for digest, token in self._tokens.items() if token.peer not in ended}

    def _new_token(self, node: int, peer: str) -> str:
        now_s = self._monotonic_s()
        while self._tokens:
            digest, oldest = next(iter(self._tokens.items()))
            if oldest.expires_s > now_s and len(self._tokens) < MAX_TOKENS:
                break
            del self._tokens[digest]
        token = secrets.token_urlsafe(NONCE_BYTES)
        self._tokens[_digest(token)] = _Token(node, peer, now_s + TOKEN_S)
        return token


def _content(role: bytes, begin: raft_pb2.ProofBegin, nonce: bytes) -> bytes:
    """Return what a proof is over. Every part has its length before it, so no two contents have the same bytes."""
    numbers = struct.pack("<II", begin.sender, begin.receiver)
    parts = (b"ledgermq node proof 1", role, begin.cluster.encode(), numbers, begin.nonce, nonce)
    return b"".join(struct.pack("<I", len(part)) + part for part in parts)


def _digest(token: str) -> bytes:
    return hashlib.sha256(token.encode()).digest()


async def _message(context: aio.ServicerContext[Any, Any]) -> raft_pb2.ProofMessage:
    message = await context.read()
    return raft_pb2.ProofMessage() if message is aio.EOF else message


async def _answer_to(message: raft_pb2.ProofMessage, stream: Any) -> raft_pb2.ProofMessage:
    """Send a message, and return the receiver's answer. Raises UnprovenError if the receiver refuses the proof."""
    with contextlib.suppress(asyncio.InvalidStateError):  # the call has ended: the read tells why
        await stream.write(message)
    answer = await stream.read()
    if answer is None:  # gRPC's way to say that it cannot be decoded
        raise UnprovenError("the receiver of a proof answered with bytes that cannot be decoded")
    if answer is not aio.EOF:
        read: raft_pb2.ProofMessage = answer
        return read
    code, details = await stream.code(), await stream.details()
    if code in (grpc.StatusCode.UNAUTHENTICATED, grpc.StatusCode.FAILED_PRECONDITION):
        raise UnprovenError(details)
    raise aio.AioRpcError(code, aio.Metadata(), aio.Metadata(), details=details)
