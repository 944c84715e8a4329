"""The proof of membership between nodes: what counts, and what does not."""

from __future__ import annotations

import asyncio
from collections import deque
from pathlib import Path
from typing import Any

import grpc
import pytest
from grpc import aio
from hypothesis import given
from hypothesis import strategies as st

from raft.transport.cluster_secret import SecretCredentials, SecretError, new_secret, read_secrets
from raft.transport.node_proof import (
    MAX_TOKENS,
    NONCE_BYTES,
    TOKEN_KEY,
    TOKEN_S,
    NodeProofs,
    Proof,
    UnprovenError,
    _answer_to,
    _content,
)
from raft.v1 import raft_pb2

HERE, THERE = "ipv4:127.0.0.1:40000", "ipv4:127.0.0.1:40001"


class Clock:
    now_s = 0.0

    def __call__(self) -> float:
        return self.now_s


class RefusedError(Exception):
    def __init__(self, code: grpc.StatusCode, details: str) -> None:
        super().__init__(details)
        self.code = code


class Call:
    """The receiver's side of a call: the messages of a caller, and what the receiver answers."""

    def __init__(self, *messages: raft_pb2.ProofMessage, peer: str = HERE, token: str = "") -> None:
        self._messages = deque(messages)
        self._peer = peer
        self._metadata = ((TOKEN_KEY, token),) if token else ()
        self.answers: list[raft_pb2.ProofMessage] = []

    async def read(self) -> Any:
        return self._messages.popleft() if self._messages else aio.EOF

    async def write(self, message: raft_pb2.ProofMessage) -> None:
        self.answers.append(message)

    async def abort(self, code: grpc.StatusCode, details: str) -> None:
        raise RefusedError(code, details)

    def peer(self) -> str:
        return self._peer

    def invocation_metadata(self) -> Any:
        return self._metadata


class Exchange(Call):
    """A caller that answers the challenge with what `answer` makes of it."""

    def __init__(self, begin: raft_pb2.ProofBegin, answer: Any, peer: str = HERE) -> None:
        super().__init__(raft_pb2.ProofMessage(begin=begin), peer=peer)
        self._begin = begin
        self._answer = answer

    async def write(self, message: raft_pb2.ProofMessage) -> None:
        await super().write(message)
        if message.HasField("challenge"):
            proof: Proof = self._answer(self._begin, message.challenge)
            self._messages.append(raft_pb2.ProofMessage(answer=raft_pb2.ProofAnswer(**proof._asdict())))

    @property
    def token(self) -> str:
        return self.answers[-1].token.token


def write_secret(path: Path, *secrets: str) -> Path:
    path.write_text("\n".join(secrets) + "\n")
    path.chmod(0o600)
    return path


@pytest.fixture
def secret(tmp_path: Path) -> Path:
    return write_secret(tmp_path / "secret", new_secret())


@pytest.fixture
def credentials(secret: Path) -> SecretCredentials:
    return SecretCredentials(secret)


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def receiver(credentials: SecretCredentials, clock: Clock) -> NodeProofs:
    return NodeProofs("prod", 2, credentials, clock)


def begin(sender: int = 1, receiver: int = 2, cluster: str = "prod") -> raft_pb2.ProofBegin:
    return raft_pb2.ProofBegin(cluster=cluster, sender=sender, receiver=receiver, nonce=b"a" * NONCE_BYTES)


def right(credentials: SecretCredentials) -> Any:
    return lambda opening, challenge: credentials.caller_proof(_content(b"caller", opening, challenge.nonce))


async def test_a_right_proof_gives_a_token_of_the_node(receiver: NodeProofs, credentials: SecretCredentials) -> None:
    exchange = Exchange(begin(), right(credentials))
    await receiver.serve(exchange)  # type: ignore[arg-type]
    call: Any = Call(token=exchange.token)
    assert receiver.node_of(call) == 1
    assert receiver.refusal(call, 1) == ""
    assert "node 1 speaks in the name of node 3" in receiver.refusal(call, 3)


async def test_a_token_belongs_to_its_connection_and_ends(
    receiver: NodeProofs, credentials: SecretCredentials, clock: Clock
) -> None:
    exchange = Exchange(begin(), right(credentials))
    await receiver.serve(exchange)  # type: ignore[arg-type]
    elsewhere: Any = Call(token=exchange.token, peer=THERE)
    assert receiver.node_of(elsewhere) == 0
    clock.now_s = TOKEN_S
    later: Any = Call(token=exchange.token)
    assert receiver.node_of(later) == 0


async def test_a_token_ends_with_its_connection(receiver: NodeProofs, credentials: SecretCredentials) -> None:
    exchange = Exchange(begin(), right(credentials))
    await receiver.serve(exchange)  # type: ignore[arg-type]
    call: Any = Call(token=exchange.token)
    receiver.end({THERE})
    assert receiver.node_of(call) != 0
    receiver.end({HERE})
    assert receiver.node_of(call) == 0, "a later connection with the same port has not proven itself"


@pytest.mark.parametrize(
    ("opening", "why"),
    [
        (begin(cluster="other"), "of cluster 'prod', not 'other'"),
        (begin(receiver=3), "this is node 2, not node 3"),
        (begin(sender=0), "malformed"),
        (raft_pb2.ProofBegin(cluster="prod", sender=1, receiver=2, nonce=b"short"), "malformed"),
        (raft_pb2.ProofBegin(), "of cluster 'prod', not ''"),
    ],
)
async def test_a_wrong_beginning_is_refused(
    receiver: NodeProofs, credentials: SecretCredentials, opening: raft_pb2.ProofBegin, why: str
) -> None:
    with pytest.raises(RefusedError, match=why) as refused:
        await receiver.serve(Exchange(opening, right(credentials)))  # type: ignore[arg-type]
    assert refused.value.code is grpc.StatusCode.UNAUTHENTICATED


async def test_a_node_proves_itself_to_itself(receiver: NodeProofs, credentials: SecretCredentials) -> None:
    exchange = Exchange(begin(sender=2), right(credentials))
    await receiver.serve(exchange)  # type: ignore[arg-type]
    call: Any = Call(token=exchange.token)
    assert receiver.node_of(call) == 2


@pytest.mark.parametrize("sender", [1, 2])
async def test_a_proof_sent_back_to_its_author_does_not_count(receiver: NodeProofs, sender: int) -> None:
    """The receiver proves itself first. A caller without the secret cannot use this proof as its own."""

    def reflected(_: raft_pb2.ProofBegin, challenge: raft_pb2.ProofChallenge) -> Proof:
        return Proof(mac=challenge.macs[0])

    with pytest.raises(RefusedError, match="does not know the cluster secret"):
        await receiver.serve(Exchange(begin(sender=sender), reflected))  # type: ignore[arg-type]


async def test_a_proof_for_another_node_or_another_exchange_does_not_count(
    receiver: NodeProofs, credentials: SecretCredentials
) -> None:
    def for_another_node(_: raft_pb2.ProofBegin, challenge: raft_pb2.ProofChallenge) -> Proof:
        return credentials.caller_proof(_content(b"caller", begin(receiver=3), challenge.nonce))

    def of_an_earlier_exchange(opening: raft_pb2.ProofBegin, _: raft_pb2.ProofChallenge) -> Proof:
        return credentials.caller_proof(_content(b"caller", opening, b"b" * NONCE_BYTES))

    for answer in (for_another_node, of_an_earlier_exchange):
        with pytest.raises(RefusedError, match="does not know the cluster secret"):
            await receiver.serve(Exchange(begin(), answer))  # type: ignore[arg-type]


async def test_a_node_without_credentials_says_so(clock: Clock) -> None:
    with pytest.raises(RefusedError, match="give all nodes the same kind of proof"):
        await NodeProofs("prod", 2, None, clock).serve(Exchange(begin(), lambda *_: Proof()))  # type: ignore[arg-type]


async def test_an_incomplete_proof_ends(receiver: NodeProofs, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("raft.transport.node_proof.PROOF_S", 0.05)

    class Silent(Call):
        async def read(self) -> Any:
            await asyncio.Event().wait()

    with pytest.raises(RefusedError, match="was not complete"):
        await receiver.serve(Silent())  # type: ignore[arg-type]


async def test_a_receiver_whose_answer_cannot_be_decoded_is_not_proven() -> None:
    """For bytes that it cannot decode, gRPC's client returns None."""

    class Garbage(Call):
        async def write(self, message: Any) -> None:
            pass

        async def read(self) -> Any:
            return None

    with pytest.raises(UnprovenError, match="cannot be decoded"):
        await _answer_to(raft_pb2.ProofMessage(), Garbage())


def test_tokens_are_bounded(receiver: NodeProofs) -> None:
    first = receiver._new_token(1, HERE)
    for _ in range(MAX_TOKENS):
        receiver._new_token(1, HERE)
    call: Any = Call(token=first)
    assert receiver.node_of(call) == 0
    assert len(receiver._tokens) == MAX_TOKENS


@given(st.binary(max_size=64), st.binary(max_size=64))
def test_no_two_contents_have_the_same_bytes(one: bytes, other: bytes) -> None:
    if one != other:
        assert _content(b"caller", begin(), one) != _content(b"caller", begin(), other)
    assert _content(b"caller", begin(), one) != _content(b"receiver", begin(), one)


# -- the file of the secret


def test_two_secrets_count_during_a_rotation(tmp_path: Path) -> None:
    old, new = new_secret(), new_secret()
    mine = SecretCredentials(write_secret(tmp_path / "mine", new, old))
    theirs = SecretCredentials(write_secret(tmp_path / "theirs", old))
    assert mine.flaw_of_caller(b"x", theirs.caller_proof(b"x"), 1) == ""
    assert theirs.accepts_receiver(b"x", mine.receiver_macs(b"x"))
    assert theirs.flaw_of_caller(b"x", mine.caller_proof(b"x"), 1) != "", "the first secret proves"


def test_a_changed_file_is_read_again_and_a_broken_one_changes_nothing(tmp_path: Path) -> None:
    path = write_secret(tmp_path / "secret", new_secret())
    credentials = SecretCredentials(path)
    first = credentials.caller_proof(b"x")
    path.write_text("garbage")
    assert credentials.caller_proof(b"x") == first
    path.unlink()
    assert credentials.caller_proof(b"x") == first
    write_secret(path, new_secret())
    assert credentials.caller_proof(b"x") != first


@pytest.mark.parametrize(
    "text", ["", "abc", "zz" * 32, "ab" * 31, "ab" * 32 + "\n" + "cd" * 32 + "\n" + "ef" * 32, "é"]
)
def test_a_file_without_secrets_is_refused(tmp_path: Path, text: str) -> None:
    path = write_secret(tmp_path / "secret", text)
    with pytest.raises(SecretError, match=r"no cluster secret|not hexadecimal"):
        read_secrets(path)


def test_a_secret_that_others_can_read_is_refused(secret: Path) -> None:
    secret.chmod(0o644)
    with pytest.raises(SecretError, match="chmod 600"):
        read_secrets(secret)
    with pytest.raises(SecretError, match="No such file"):
        read_secrets(secret.with_name("nothing"))
