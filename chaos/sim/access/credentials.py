"""How a simulated client proves who it is. The production code makes the proof, over simulated streams.

A client can get other credentials while it runs, as a program reads a new password from a file. The simulator remembers
all credentials that a client ever had, because a client may go on with the proof of earlier ones.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any, cast

from chaos.sim.access.password_rounds import remembered_rounds
from chaos.sim.engine.rpc import SimChannel, StubChannel
from ledger.client.connection.channels import NodeStub
from ledger.client.connection.session import ProofTools, ProvenChannel, ProvenSession


@dataclass(frozen=True, slots=True)
class Credential:
    """A user with a password, or a delegated token."""

    user: str
    password: str = ""
    token: str = ""


class SimCredentials:
    """What one client, or several, prove themselves with now. Implements `ledger.client.connection.session.Proving`."""

    client_certificate: Path | None = None
    client_key: Path | None = None

    def __init__(self, first: Credential) -> None:
        # Oldest first; the last one counts.
        self.ever = [first]

    def replace(self, credential: Credential) -> None:
        if credential != self.ever[-1]:
            self.ever.append(credential)

    @property
    def now(self) -> Credential:
        return self.ever[-1]

    @property
    def user(self) -> str:
        return "" if self.now.token else self.now.user

    @property
    def token(self) -> str:
        return self.now.token

    def current_password(self) -> str:
        return self.now.password


class ProvenSimChannel:
    """A channel of a client that proves itself. Implements `ledger.client.connection.channels.Channel`."""

    def __init__(self, channel: SimChannel, credentials: SimCredentials, random: Random) -> None:
        self._channel = channel
        calls = cast("Any", StubChannel(channel))
        self._session = ProvenSession(calls, credentials, ProofTools(random.randbytes, at_once))
        self.stub = NodeStub(ProvenChannel(calls, self._session))

    async def close(self) -> None:
        await self._session.close()
        await self._channel.close()


async def at_once(function: Callable[[], Any]) -> Any:
    """Call the function, which may compute the rounds of a password. A simulated process has no threads."""
    with remembered_rounds():
        return function()
