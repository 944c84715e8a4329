"""Base classes of the clients: the names of their arguments, and starting and stopping in `with` blocks."""

from __future__ import annotations

import inspect
import sys
import warnings
from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping
from difflib import get_close_matches
from types import TracebackType
from typing import Any, ClassVar, NoReturn, Self, TypeVar, cast

from ledger.client.connection.environment import PROCESS, Environment
from ledger.client.connection.security import SecurityOptions

C = TypeVar("C", bound="Client")

# Names in other libraries of settings that we have under a name that is not similar (docs/COMING_FROM.md).
_ELSEWHERE = {
    "auto_offset_reset": "start",
    "callback": "listener",
    "cb": "listener",
    "consume_thread_max": "concurrency",
    "durable": "group",
    "enable_auto_commit": "auto_acknowledge",
    "max_batch_size": "batch_bytes",
    "max_deliver": "max_attempts",
    "max_poll_interval_ms": "release_timeout_ms",
    "max_reconsume_times": "max_attempts",
    "max_retries": "max_attempts",
    "max_workers": "concurrency",
    "partition_assignment_strategy": "strategy",
    "partitioner": "queue_selector",
    "prefetch_count": "concurrency",
    "servers": "bootstrap_servers",
}

# Settings of consumers in groups, here and in other libraries, that a consumer without a group does not have.
_OF_MEMBERS = {"group", "group_id", "listener"}


class Client(ABC):  # noqa: B024 - its subclasses have the abstract methods
    """The base class of all clients."""

    # The connections, clocks and random ids of the client. The simulator replaces them with `within`.
    _environment: ClassVar[Environment] = PROCESS

    def __new__(cls, *_: Any, **arguments: Any) -> Self:
        known = inspect.signature(cls.__init__).parameters
        for name in arguments:
            if name not in known:
                raise TypeError(f"{cls.__name__} has no setting {name}{_did_you_mean(name, known)}")
        return super().__new__(cls)

    def __reduce__(self) -> NoReturn:
        """Refuse to be pickled or copied, because a client has connections and a thread or an event loop."""
        kind = type(self).__name__
        raise TypeError(f"{kind} cannot be pickled or copied: make a new {kind} in each process")


class AsyncLifetime(Client):
    """The base class of the asyncio clients. `async with` calls `start` at its beginning and `stop` at its end."""

    @abstractmethod
    async def start(self) -> None:
        """Connect to the cluster."""

    @abstractmethod
    async def stop(self) -> None:
        """Stop the client, and close its connections."""

    async def close(self) -> None:
        """Do the same as `stop`, under the name that other libraries use."""
        await self.stop()

    async def aclose(self) -> None:
        """Do the same as `stop`, under the name that `contextlib.aclosing` uses."""
        await self.stop()

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.stop()


class Lifetime(Client):
    """The base class of the synchronous clients. The constructor starts the client, and `close` or the end of a
    `with` block stops the client."""

    # True: the client works without calls of the program, for example because it calls a listener.
    _works_alone: ClassVar[bool] = False

    @abstractmethod
    def close(self) -> None:
        """Stop the client, and close its connections."""

    def stop(self) -> None:
        """Do the same as `close`, under the name that the asyncio clients use."""
        self.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __del__(self) -> None:
        """Warn if the program has forgotten the client and not closed it. The thread of a forgotten client would go on,
        and a forgotten member of a group would keep its queues. So the thread stops the client, unless the client works
        without calls of the program."""
        thread: Any = getattr(self, "_thread", None)
        if thread is None or not thread.alive or sys.is_finalizing():
            return
        kind = type(self).__name__
        warnings.warn(
            f"unclosed {kind}: call close(), or use it in a `with` block", ResourceWarning, stacklevel=2, source=self
        )
        if not self._works_alone:
            thread.abandon(cast(Any, self)._client.stop)


def within(environment: Environment, client: type[C]) -> type[C]:
    """Return a class like `client` whose instances use `environment`."""
    return type(client.__name__, (client,), {"_environment": environment})


def settings_in(arguments: Mapping[str, Any], *, without: Collection[str] = ()) -> dict[str, Any]:
    """Return the settings among the `locals()` of a constructor that begins with this call: all its arguments except
    `self`, the topics, and those named by `without`. A client passes them on to the client that it is built on."""
    dropped = {"self", "__class__", "topics", *without}
    return {name: value for name, value in arguments.items() if name not in dropped}


def security_in(arguments: Mapping[str, Any]) -> SecurityOptions:
    """Return the security arguments among the `locals()` of a constructor."""
    return cast(SecurityOptions, {name: arguments[name] for name in SecurityOptions.__annotations__})


def _did_you_mean(name: str, known: Collection[str]) -> str:
    public = [each for each in known if each != "self"]
    if name in _OF_MEMBERS and "group" not in public and "start" in public:
        return ": a member of a consumer group is a GroupConsumer, PushConsumer or SharedConsumer."
    elsewhere = _ELSEWHERE.get(name)
    close = [elsewhere] if elsewhere in public else get_close_matches(name, public, n=1)
    return f": did you mean {close[0]}?" if close else f". Its settings are {', '.join(public)}."
