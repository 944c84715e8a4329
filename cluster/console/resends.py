"""Resends of dead letters that users have begun on the console of this node. A resend goes on if the browser leaves.

A resend ends with the node, and after `MAX_S`. What it has sent by then is recorded by the cluster, so a new resend
continues after it.
"""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass, field

from cluster.console.clients import REQUEST_TIMEOUT_MS, ConsoleClients
from cluster.dead_letters import DeadLetterQueue, Resent
from ledger.errors import LedgerError, UnavailableError

log = logging.getLogger("ledgermq.node.console")

MAX_S = 600.0
# Resends that run at the same time, and resends whose outcomes are kept.
MAX_RUNNING = 4
MAX_KEPT = 64


@dataclass(slots=True, eq=False)
class Resend:
    """One resend of all dead letters of a group. `error` says why it has ended early."""

    group: str
    resent: Resent = field(default_factory=Resent)
    is_running: bool = True
    error: str = ""
    task: asyncio.Task[None] | None = None


class Resends:
    """The resends of one node, by login and group. A login sees only its own resends."""

    def __init__(self, clients: ConsoleClients) -> None:
        self._clients = clients
        self._resends: dict[tuple[str, str], Resend] = {}
        self._is_closed = False

    def find(self, token: str, group: str) -> Resend | None:
        """Return the newest resend of this login and group."""
        return self._resends.get((token, group))

    async def letters(self, token: str, group: str) -> DeadLetterQueue:
        """Return the dead letters of a group, as the user of a login may handle them. Raises LedgerError."""
        return DeadLetterQueue(
            group,
            await self._clients.admin(token),
            self._clients.servers,
            self._clients.environment(token),
            request_timeout_ms=REQUEST_TIMEOUT_MS,
        )

    async def begin(self, token: str, group: str) -> Resend:
        """Begin a resend of all dead letters of the group. If one runs, return it. Raises LedgerError."""
        known = self.find(token, group)
        if known is not None and known.is_running:
            return known
        if sum(resend.is_running for resend in self._resends.values()) >= MAX_RUNNING:
            raise UnavailableError(f"{MAX_RUNNING} resends run on this node: wait for the end of one, then repeat.")
        # A second request can come during the next `await`, and must find this resend.
        resend = self._resends[token, group] = Resend(group)
        try:
            letters = await self.letters(token, group)
            if self._is_closed:
                raise UnavailableError("This node stops: begin the resend on another node.")
        except BaseException:
            self._take_back(token, resend, known)
            raise
        for key in [key for key, each in self._resends.items() if not each.is_running][:-MAX_KEPT]:
            del self._resends[key]
        resend.task = asyncio.create_task(self._run(letters, resend), name=f"resend of {group}")
        return resend

    def _take_back(self, token: str, resend: Resend, earlier: Resend | None) -> None:
        """Remove a resend that could not begin. The earlier resend of the group is the newest one again."""
        resend.is_running = False
        if earlier is not None:
            self._resends[token, resend.group] = earlier
        else:
            del self._resends[token, resend.group]

    async def close(self) -> None:
        """End all resends. A resend that is about to begin is refused."""
        self._is_closed = True
        tasks = [resend.task for resend in self._resends.values() if resend.task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _run(self, letters: DeadLetterQueue, resend: Resend) -> None:
        try:
            async with asyncio.timeout(MAX_S):
                await letters.resend(None, resend.resent)
        except LedgerError as error:
            resend.error = str(error)
        except TimeoutError:
            resend.error = f"The resend was stopped after {MAX_S:.0f} s. Begin another one to continue."
        except Exception:
            log.exception("a resend of the console failed, which is a defect of ledgermq")
            resend.error = "The console failed: the log of the node has the details."
        finally:
            resend.is_running = False
