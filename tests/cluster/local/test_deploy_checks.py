"""deploy/alive.py, the health check of a container, and deploy/ready.py, which waits for nodes."""

from __future__ import annotations

import ssl
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from cluster.provision import provision

pytestmark = pytest.mark.real

DEPLOY = Path(__file__).resolve().parents[3] / "deploy"
NOBODY = "127.0.0.1:1"


class FakeNode(HTTPServer):
    """A node that is alive, and is ready from the third request on."""

    def __init__(self, tls: ssl.SSLContext | None = None) -> None:
        super().__init__(("127.0.0.1", 0), FakeAnswer)
        if tls is not None:
            self.socket = tls.wrap_socket(self.socket, server_side=True)
        self.asked: list[str] = []
        self.ready_from = 3
        self.lives = True

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.server_port}"


class FakeAnswer(BaseHTTPRequestHandler):
    server: FakeNode

    def do_GET(self) -> None:
        self.server.asked.append(self.path)
        ready = self.server.asked.count("/readyz") >= self.server.ready_from
        good = ready if self.path == "/readyz" else self.server.lives
        self.send_response(200 if good else 503)
        self.end_headers()
        self.wfile.write(b'{"status": "ready"}' if good else b'{"status": "not ready", "reason": "no leader"}')

    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture
def node() -> Iterator[FakeNode]:
    yield from serving(FakeNode())


@pytest.fixture
def secured(tmp_path: Path) -> Iterator[FakeNode]:
    provision(tmp_path, tmp_path, "test", {1: ["127.0.0.1"]})
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(tmp_path / "node-1.pem", tmp_path / "node-1.key")
    yield from serving(FakeNode(context))


def serving(server: FakeNode) -> Iterator[FakeNode]:
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


def alive(address: str, *arguments: str, **variables: str) -> int:
    command = [sys.executable, "-I", "-S", str(DEPLOY / "alive.py"), *arguments]
    environment = {"LEDGERMQ_HTTP": address, **variables}
    return subprocess.run(command, env=environment, capture_output=True, timeout=30).returncode


def ready(addresses: str, within_s: str, *ca: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(DEPLOY / "ready.py"), addresses, within_s, *ca]
    return subprocess.run(command, capture_output=True, text=True, timeout=60)


def test_a_node_lives_that_answers_whether_it_is_ready_or_not(node: FakeNode) -> None:
    assert alive(node.address) == 0
    assert node.asked == ["/healthz"], "readiness, which needs a quorum, is not asked for"


def test_a_node_that_answers_badly_or_not_at_all_does_not_live(node: FakeNode) -> None:
    node.lives = False
    assert (alive(node.address), alive(NOBODY)) == (1, 1)


def test_the_same_check_asks_whether_the_node_is_ready(node: FakeNode) -> None:
    assert [alive(node.address, "ready") for _ in range(3)] == [1, 1, 0]
    assert node.asked == ["/readyz"] * 3


def test_a_node_with_tls_lives_and_is_waited_for(secured: FakeNode, tmp_path: Path) -> None:
    assert alive(secured.address, LEDGERMQ_TLS_CERTIFICATE="node-1.pem") == 0
    assert alive(secured.address) == 1
    assert ready(secured.address, "30", str(tmp_path / "ca.pem")).returncode == 0
    assert "it does not answer" in ready(secured.address, "0").stderr


def test_a_node_without_that_port_cannot_be_asked() -> None:
    assert alive("") == 0


def test_nodes_are_waited_for_until_they_are_ready(node: FakeNode) -> None:
    assert ready(node.address, "30").returncode == 0
    assert node.asked == ["/readyz"] * 3


def test_who_does_not_get_ready_is_named_with_the_reason(node: FakeNode) -> None:
    node.ready_from = 1_000_000
    done = ready(f"{node.address},{NOBODY}", "0")
    assert done.returncode == 1
    assert f"the node at {node.address} is not ready: no leader" in done.stderr
    assert f"the node at {NOBODY} is not ready: it does not answer" in done.stderr
