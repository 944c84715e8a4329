"""Takes and releases the holds of a shard's log, on the leader."""

from __future__ import annotations

import asyncio
from typing import Any, Protocol

from ledger.holds import validate_hold
from ledger.state import Hold, State
from ledger.state.command_encoding import encode_command
from ledger.state.commands import Command, ForgetHolds, HoldLog, ReleaseLog


class HoldProposer(Protocol):
    """The interface through which `LogHolds` uses a shard's replica."""

    @property
    def state(self) -> State: ...
    def check_leads(self, size: int) -> object:
        """Raise LedgerError if this node cannot propose an entry with a body of `size` bytes."""

    def propose_command(self, command: Command) -> asyncio.Future[Any]:
        """Propose a command. The caller must have called `check_leads` before."""

    def propose_checked(self, command: Command) -> asyncio.Future[Any]:
        """Call `check_leads`, and then propose a command."""


class LogHolds:
    """Takes, releases and expires the holds of one shard's log. Every method raises LedgerError if this node does
    not lead the shard."""

    def __init__(self, replica: HoldProposer) -> None:
        self._replica = replica
        # Holds that were proposed here and are not applied yet.
        self._proposed = 0

    @property
    def is_held(self) -> bool:
        """True if a hold forbids moves of the log start. The leader counts a hold from its proposal on, so the log
        start cannot move before the hold is committed."""
        return len(self._replica.state.holds) > 0 or self._proposed > 0

    def take(self, name: str, ttl_ms: int) -> asyncio.Future[Hold]:
        """Propose a hold. If a hold of this name exists, propose a new expiry of that hold."""
        validate_hold(name, ttl_ms)
        command = HoldLog(name, ttl_ms)
        self._replica.check_leads(len(encode_command(command)))
        self._replica.state.holds.check_room(name)
        self._proposed += 1
        future: asyncio.Future[Hold] = self._replica.propose_command(command)
        future.add_done_callback(self._settled)
        return future

    def release(self, name: str) -> asyncio.Future[bool]:
        """Propose to release a hold. The result of the returned future says whether a hold of this name existed."""
        return self._replica.propose_checked(ReleaseLog(name))

    def expire(self) -> asyncio.Future[None]:
        """Propose an entry that removes the holds that have expired at the entry's append time. Every batch and
        every other command removes expired holds too, so this entry is needed only while no other entry is
        appended."""
        return self._replica.propose_checked(ForgetHolds())

    def _settled(self, _: asyncio.Future[Hold]) -> None:
        self._proposed -= 1
