"""Ends the iteration of consumers when the process receives SIGINT or SIGTERM."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from types import FrameType
from typing import Any, Protocol

from ledger.client.checked_arguments import shown
from ledger.errors import InvalidArgumentError


class Reading(Protocol):
    """An interface: a consumer that can be told to hand out no more messages."""

    def stop_reading(self) -> None: ...


@contextlib.contextmanager
def stop_on_signal(
    *consumers: Reading, signals: Sequence[signal.Signals] = (signal.SIGINT, signal.SIGTERM)
) -> Iterator[None]:
    """Call `stop_reading` of the consumers when one of `signals` arrives during the `with` block.

        with GroupConsumer("orders", group="billing") as consumer, stop_on_signal(consumer):
            for message in consumer:
                ...

    The iteration ends after the message in hand, and the end of the consumer's own `with` block acknowledges it and
    leaves the group. In a coroutine the same `with` statement works with asyncio consumers. A second signal has its
    usual effect, for example KeyboardInterrupt, so that a program that hangs can be ended. The block must be entered in
    the main thread, because Python handles signals there; otherwise InvalidArgumentError is raised.
    """
    if threading.current_thread() is not threading.main_thread():
        raise InvalidArgumentError(
            "stop_on_signal() works only in the main thread: call consumer.stop_reading() from your own signal handler."
        )
    for consumer in consumers:
        if not callable(getattr(consumer, "stop_reading", None)):
            raise InvalidArgumentError(f"consumers has {shown(consumer)}, which has no stop_reading(): give consumers.")
    tell = _teller(consumers)
    earlier: dict[signal.Signals, Any] = {}

    def restore() -> None:
        for number, handler in earlier.items():
            if signal.getsignal(number) is handle:
                signal.signal(number, handler)

    def handle(_: int, __: FrameType | None) -> None:
        restore()
        tell()

    try:
        for number in signals:
            # None: the handler was not installed by Python, and Python cannot install it again.
            earlier[number] = signal.signal(number, handle) or signal.SIG_DFL
        yield
    finally:
        restore()


def _teller(consumers: Sequence[Reading]) -> Callable[[], None]:
    """Return a function that a signal handler can call. The handler runs between any two steps of the program, so
    consumers of an event loop are told by a callback of this loop."""

    def tell() -> None:
        for consumer in consumers:
            consumer.stop_reading()

    try:
        loop = asyncio.get_running_loop()
    except RuntimeError:
        return tell

    def tell_in_loop() -> None:
        loop.call_soon_threadsafe(tell)

    return tell_in_loop
