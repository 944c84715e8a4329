"""The network namespace of one node, by the file that stands for it."""

from __future__ import annotations

import ctypes
import os
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from chaos.errors import ChaosError
from chaos.live.hosts.shell import run

NEW_NETWORK = 0x40000000  # CLONE_NEWNET
_LIBC = ctypes.CDLL(None, use_errno=True)

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Namespace:
    """`file`: /run/netns/NAME, or /proc/PID/ns/net."""

    file: Path

    def run(self, *command: str) -> str:
        """A program, inside. (Not by `ip netns exec`: that makes a mount namespace too, in which disks stay mounted
        that are unmounted elsewhere.)"""
        return run(*self.prefix, *command)

    @property
    def prefix(self) -> list[str]:
        """In front of a command."""
        return ["nsenter", f"--net={self.file}"]

    def call(self, function: Callable[[], T]) -> T:
        """What the function gives when it runs inside, in a thread of its own: what it opens there stays there."""
        results: list[T] = []
        failures: list[BaseException] = []

        def inside() -> None:
            try:
                self._enter()
                results.append(function())
            except BaseException as failure:
                failures.append(failure)

        thread = threading.Thread(target=inside, name="in a namespace")
        thread.start()
        thread.join()
        if failures:
            raise failures[0]
        return results[0]

    def _enter(self) -> None:
        """This thread only."""
        namespace = os.open(self.file, os.O_RDONLY)
        try:
            if _LIBC.setns(namespace, NEW_NETWORK):
                raise ChaosError(f"cannot enter {self.file}: {os.strerror(ctypes.get_errno())}")
        finally:
            os.close(namespace)


def leave_the_network() -> None:
    """This process, which must have no other threads that speak over a network, gets one of its own: an empty one.

    Raises ChaosError where it may not."""
    if _LIBC.unshare(NEW_NETWORK):
        raise ChaosError(f"no network namespace of its own: {os.strerror(ctypes.get_errno())}; run it as root")
