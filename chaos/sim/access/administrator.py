"""Repeats acts of an administrator until the cluster has confirmed them."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from random import Random

from chaos.sim.access.credentials import Credential
from chaos.sim.stack.workload import ClientProcess
from ledger.client.admin.admin import AsyncAdmin
from ledger.client.connection.lifetime import within
from ledger.errors import LedgerError, UnknownUserError, UserExistsError

AGAIN_S = 0.5
TIMEOUT_MS = 5_000

Rules = Sequence[tuple[str, str]]


class SimAdministrator:
    """Changes users and rules in the process of one client."""

    def __init__(self, process: ClientProcess, bootstrap: Sequence[str], random: Random) -> None:
        self.process = process
        self._bootstrap = list(bootstrap)
        self._random = random

    async def add(self, credential: Credential, rules: Rules) -> None:
        """Add the user with its password, unless it exists, and grant the rules."""

        async def add(admin: AsyncAdmin) -> None:
            with contextlib.suppress(UserExistsError):  # the answer of an earlier request may have been lost
                await admin.add_user(credential.user, credential.password)

        await self.done(add)
        await self.grant(credential.user, rules)

    async def grant(self, user: str, rules: Rules) -> None:
        for action, resource in rules:
            await self.done(partial(AsyncAdmin.grant, user=user, action=action, resource=resource))

    async def revoke(self, user: str, rules: Rules) -> None:
        for action, resource in rules:
            await self.done(partial(AsyncAdmin.revoke, user=user, action=action, resource=resource))

    async def done(self, act: Callable[[AsyncAdmin], Awaitable[object]]) -> None:
        """Repeat an act until the cluster has confirmed it."""
        while True:
            try:
                async with self.asking() as admin:
                    await act(admin)
                    return
            except UnknownUserError:
                return  # removed meanwhile
            except LedgerError:
                await asyncio.sleep(AGAIN_S)

    async def tried(self, act: Callable[[AsyncAdmin], Awaitable[object]], address: str, timeout_ms: int) -> bool:
        """Try an act once, at one node first. Return True if the cluster has confirmed it. If the cluster has not, the
        act can still be carried out later."""
        try:
            async with self.asking([address], timeout_ms) as admin:
                await act(admin)
        except LedgerError:
            return False
        return True

    def asking(self, addresses: Sequence[str] = (), timeout_ms: int = TIMEOUT_MS) -> AsyncAdmin:
        admin = within(self.process.environment, AsyncAdmin)
        return admin(list(addresses) or self._bootstrap, request_timeout_ms=timeout_ms, rng=self._random)
