"""`pytest --quick` runs the tests that need neither sockets nor other processes, and are short (`make test-quick`).

Left out are tests with the mark `real` or `long`, and folders in which all tests are real. If a test of a quick run
uses a socket or a process all the same, the test fails: the mark is missing. Python reports sockets and processes to
audit hooks. gRPC opens its sockets in C and reports nothing, so the functions that make servers and channels are
replaced.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NoReturn

import grpc
import hypothesis
import pytest

ROOT = Path(__file__).resolve().parents[1]
REAL_FOLDERS = ("tests/cluster/clients", "tests/cluster/shards", "tests/cluster/three_nodes", "tests/ledger/spark")

_LEFT_OUT = ("real", "long", "floor")
_FORBIDDEN = frozenset(
    {"socket.bind", "socket.connect", "socket.getaddrinfo", "socket.sendto", "subprocess.Popen", "os.system"}
    | {"os.exec", "os.fork", "os.forkpty", "os.posix_spawn", "os.spawn"}
)
_GRPC = ("insecure_channel", "secure_channel", "server")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--quick", action="store_true", help="only short tests that need no sockets and no processes")


def pytest_configure(config: pytest.Config) -> None:
    if config.getoption("--quick"):
        config.pluginmanager.register(_QuickRun(), "quick run")
        hypothesis.settings.register_profile("quick", deadline=None, max_examples=20)
        hypothesis.settings.load_profile("quick")


class NotQuickError(Exception):
    """A test of a quick run used a socket or a process. Mark the test as `real`."""


def is_quick(item: pytest.Item) -> bool:
    return not any(item.get_closest_marker(mark) for mark in _LEFT_OUT)


class _QuickRun:
    """The hooks of a quick run."""

    def __init__(self) -> None:
        # An audit hook stays as long as the process; this one refuses only while a test runs.
        self._test_runs = False
        sys.addaudithook(self._refuse)

    def _refuse(self, event: str, _: object) -> None:
        if self._test_runs and event in _FORBIDDEN:
            raise NotQuickError(event)

    def pytest_ignore_collect(self, collection_path: Path) -> bool | None:
        return any(collection_path == ROOT / folder for folder in REAL_FOLDERS) or None

    def pytest_collection_modifyitems(self, config: pytest.Config, items: list[pytest.Item]) -> None:
        config.hook.pytest_deselected(items=[item for item in items if not is_quick(item)])
        items[:] = [item for item in items if is_quick(item)]

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self) -> Iterator[None]:
        self._test_runs = True
        try:
            with pytest.MonkeyPatch.context() as patch:
                for name in _GRPC:
                    patch.setattr(grpc, name, _refused)
                    patch.setattr(grpc.aio, name, _refused)
                return (yield)
        finally:
            self._test_runs = False


def _refused(*_: object, **__: object) -> NoReturn:
    raise NotQuickError("a server or channel of gRPC")
