"""A browser, and clusters with a console: one that everybody on this machine may use, and one with users."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TypeVar

import pytest
from playwright.sync_api import Browser

from cluster.local.processes import DevCluster
from tests.cluster.console.browser import ConsoleBrowser, launched

SHARDS = 2
SEGMENT_BYTES = 8 << 20
Visit = Callable[..., ConsoleBrowser]
T = TypeVar("T")


class ConsoleCluster:
    """Three nodes. Playwright keeps an event loop running in the thread of the test, so everything that needs an event
    loop of its own runs in another thread."""

    def __init__(self, directory: Path, *, secure: bool) -> None:
        self._thread = ThreadPoolExecutor(1, "cluster")
        self._cluster = DevCluster(directory)
        # Small segments, so that old messages can be removed.
        self.beside(lambda: self._cluster.start(3, shards=SHARDS, secure=secure, segment_bytes=SEGMENT_BYTES))
        self.is_secure = secure
        self.bootstrap = self._cluster.bootstrap
        # The options of clients that administer the cluster.
        self.client_options = self._cluster.client_options

    def beside(self, work: Callable[[], T]) -> T:
        """Call a function in the other thread, and return its result."""
        return self._thread.submit(work).result()

    @property
    def password(self) -> str:
        """The password of the user `admin`."""
        return self._cluster.credentials.password.read_text(encoding="utf-8").strip()

    def url(self, node: int) -> str:
        """Return the address of a node's HTTP port."""
        return f"{'https' if self.is_secure else 'http'}://{self._cluster.node(node).http}"

    def leader(self) -> int:
        """Return the leader of shard 0."""
        return self.beside(self._cluster.leader)

    def kill(self, node: int) -> None:
        self.beside(lambda: self._cluster.kill(node))

    def restart(self, node: int) -> None:
        self.beside(lambda: self._cluster.restart(node))

    def start_joining_node(self) -> tuple[int, str]:
        """Start one more node, which waits to be added. Return its number and address."""
        node = self.beside(self._cluster.start_joining_node)
        return node, self._cluster.node(node).address

    def log_file(self, node: int, shard: int) -> Path:
        """Return the first file of the log of a replica."""
        return min((self._cluster.node(node).data / f"shard-{shard}" / "log").iterdir())

    def purge(self) -> None:
        self.beside(self._cluster.purge)
        self._thread.shutdown()


@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    """A browser for one module. Playwright's event loop runs in the thread of the tests until the browser is closed, so
    a module with this fixture has no asynchronous tests."""
    with launched() as browser:
        yield browser


@pytest.fixture(scope="module")
def open_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ConsoleCluster]:
    """Three nodes without authentication."""
    yield from _started(tmp_path_factory, secure=False)


@pytest.fixture(scope="module")
def secured_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ConsoleCluster]:
    """Three nodes with TLS and users."""
    yield from _started(tmp_path_factory, secure=True)


@pytest.fixture
def visit(chromium: Browser) -> Iterator[Visit]:
    """Opens windows: `visit(cluster, node)`. The test fails if a browser complained about a page."""
    windows: list[ConsoleBrowser] = []

    def opened(cluster: ConsoleCluster, node: int = 1, **context: object) -> ConsoleBrowser:
        windows.append(ConsoleBrowser(chromium, cluster.url(node), **context))
        return windows[-1]

    yield opened
    for window in windows:
        window.close()
    for window in windows:
        window.check()


def _started(factory: pytest.TempPathFactory, *, secure: bool) -> Iterator[ConsoleCluster]:
    cluster = ConsoleCluster(factory.mktemp("console") / "cluster", secure=secure)
    yield cluster
    cluster.purge()
