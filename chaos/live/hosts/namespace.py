"""Runs programs and functions in the network namespace of one node. The path of a file identifies the namespace."""

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
    """`file` is /run/netns/NAME or /proc/PID/ns/net."""

    file: Path

    def run(self, *command: str) -> str:
        """Run a program inside the namespace and return its output. Raises ChaosError if the program fails.

        `ip netns exec` is not used, because it also creates a mount namespace, in which disks stay mounted after they
        are unmounted elsewhere.
        """
        return run(*self.prefix, *command)

    @property
    def prefix(self) -> list[str]:
        """Return the words to put before a command, so that the command runs inside the namespace."""
        return ["nsenter", f"--net={self.file}"]

    def call(self, function: Callable[[], T]) -> T:
        """Call the function inside the namespace and return its result. The function runs in a separate thread.
        Sockets and files that the function opens stay in the namespace.
        """
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
        """Move this thread into the namespace."""
        namespace = os.open(self.file, os.O_RDONLY)
        try:
            if _LIBC.setns(namespace, NEW_NETWORK):
                raise ChaosError(f"cannot enter {self.file}: {os.strerror(ctypes.get_errno())}")
        finally:
            os.close(namespace)


def leave_the_network() -> None:
    """Move this process into a new, empty network namespace. Call this function before any other thread uses the
    network. Raises ChaosError if this process is not allowed to create network namespaces.
    """
    if _LIBC.unshare(NEW_NETWORK):
        raise ChaosError(f"no network namespace of its own: {os.strerror(ctypes.get_errno())}; run it as root")
