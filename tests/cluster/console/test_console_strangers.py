"""What strangers send to the console: the answers are refusals, and the node stays as it was."""

from __future__ import annotations

import http.client
import socket
import ssl
import time
from urllib.parse import urlparse

import pytest

from cluster.console.console import MAX_FORM_BYTES, MAX_FORMS, MAX_LOGIN_BYTES
from cluster.console.live import MAX_STREAMS
from tests.cluster.console.conftest import ConsoleCluster

pytestmark = pytest.mark.real
FORM = {"Content-Type": "application/x-www-form-urlencoded"}


def asked(
    cluster: ConsoleCluster, method: str, path: str, body: bytes = b"", headers: dict[str, str] | None = None
) -> tuple[int, bytes]:
    connection = http.client.HTTPConnection(urlparse(cluster.url(1)).netloc, timeout=10)
    try:
        connection.request(method, path, body or None, headers or {})
        response = connection.getresponse()
        return response.status, response.read()
    finally:
        connection.close()


@pytest.mark.parametrize(
    ("method", "path", "body", "headers", "status"),
    [
        ("POST", "/console/operations/remove", b"", {}, 400),
        ("POST", "/console/operations/remove", b"node=1", FORM, 403),
        ("POST", "/console/operations/remove", b"%ff=%ff", FORM, 400),
        ("POST", "/console/operations/remove", b"&".join(b"a%d=1" % number for number in range(999)), FORM, 400),
        ("POST", "/console/operations/remove", b"{}", {"Content-Type": "application/json"}, 400),
        ("GET", "/console/operations/plan/remove?node=-1", b"", {}, 400),
        ("GET", "/console/operations/plan/remove?node=99999999999999999999999", b"", {}, 400),
        ("GET", "/console/operations/plan/<script>", b"", {}, 400),
        ("GET", "/console/shards/0?last=x", b"", {}, 400),
        ("GET", "/console/static/..%2f..%2fconsole.py", b"", {}, 404),
        ("GET", "/console/nothing", b"", {}, 404),
        ("POST", "/console/operations/remove", b"node=1", {**FORM, "Origin": "http://\xff"}, 403),
        ("PUT", "/console/operations", b"", {}, 405),
    ],
)
def test_wrong_requests_are_refused(
    open_cluster: ConsoleCluster, method: str, path: str, body: bytes, headers: dict[str, str], status: int
) -> None:
    answer, page = asked(open_cluster, method, path, body, headers)
    assert answer == status
    assert b"<script>" not in page


def test_the_login_reads_only_small_forms(secured_cluster: ConsoleCluster) -> None:
    """A stranger who has no password must not make the node hold much."""
    host, _, port = urlparse(secured_cluster.url(1)).netloc.rpartition(":")
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    connection = http.client.HTTPSConnection(host, int(port), timeout=10, context=context)
    connection.request("POST", "/console/login", b"user=" + b"x" * MAX_LOGIN_BYTES, FORM)
    assert connection.getresponse().status == 400
    connection.close()


def test_slow_forms_keep_nobody_from_small_ones(open_cluster: ConsoleCluster) -> None:
    host, _, port = urlparse(open_cluster.url(1)).netloc.rpartition(":")
    request = (
        f"POST /console/logout HTTP/1.1\r\nHost: {host}:{port}\r\nContent-Length: {MAX_FORM_BYTES}\r\n"
        "Content-Type: application/x-www-form-urlencoded\r\n\r\nproof="
    ).encode()
    slow = [socket.create_connection((host, int(port)), timeout=10) for _ in range(MAX_FORMS)]
    try:
        for connection in slow:
            connection.sendall(request)
        time.sleep(0.3)
        began_s = time.monotonic()
        assert asked(open_cluster, "POST", "/console/operations/remove", b"node=1", FORM)[0] == 403
        assert time.monotonic() - began_s < 5
    finally:
        for connection in slow:
            connection.close()


def test_streams_are_bounded(open_cluster: ConsoleCluster) -> None:
    host, _, port = urlparse(open_cluster.url(1)).netloc.rpartition(":")
    request = f"GET /console/live/cluster HTTP/1.1\r\nHost: {host}:{port}\r\n\r\n".encode()
    streams = []
    try:
        for _ in range(MAX_STREAMS):
            streams.append(socket.create_connection((host, int(port)), timeout=10))
            streams[-1].sendall(request)
        assert all(b" 200 " in stream.recv(4096) for stream in streams)
        assert asked(open_cluster, "GET", "/console/live/cluster")[0] == 503
    finally:
        for stream in streams:
            stream.close()
    deadline_s = time.monotonic() + 10
    while time.monotonic() < deadline_s:
        with socket.create_connection((host, int(port)), timeout=10) as stream:
            stream.sendall(request)
            if b" 200 " in stream.recv(4096):
                return
        time.sleep(0.1)
    pytest.fail("the places of streams that ended were not given back")
