"""The doctor and the bundle ask each node for its own figures, also if all nodes listen on all addresses."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any, cast

import pytest

from cluster.cli.debug import bundle
from cluster.cli.doctor import observation
from cluster.console.clients import ConsoleAdmin
from ledger.client.connection.security import Security
from ledger.validation.sources.node_urls import http_url
from ledgermq import NodeStatus

NODE = NodeStatus(2, "queue-2:9871", reachable=True, http_address="0.0.0.0:9872")


class Asked:
    """Takes the place of `HttpAccess`, and answers every request with the same metrics."""

    urls: list[str]

    def file(self, url: str) -> bytes:
        self.urls.append(url)
        return b"ledgermq_raft_term 7\n"


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    urls: list[str] = []
    monkeypatch.setattr(Asked, "urls", urls, raising=False)
    monkeypatch.setattr(observation, "HttpAccess", Asked)
    monkeypatch.setattr(bundle, "HttpAccess", Asked)
    return urls


@pytest.mark.parametrize(
    ("address", "http", "url"),
    [
        ("queue-2:9871", "0.0.0.0:9872", "http://queue-2:9872"),
        ("queue-2:9871", "[::]:9872", "http://queue-2:9872"),
        ("queue-2:9871", ":9872", "http://queue-2:9872"),
        ("[fd00::2]:9871", "[::]:9872", "http://[fd00::2]:9872"),
        ("queue-2:9871", "10.0.0.2:9872", "http://10.0.0.2:9872"),
        ("unix:/data/local.sock", "0.0.0.0:9872", "http://localhost:9872"),
        ("queue-2:9871", "", ""),
    ],
)
def test_the_url_of_a_node(address: str, http: str, url: str) -> None:
    node = replace(NODE, address=address, http_address=http)
    assert http_url(node, tls=False) == url
    assert http_url(node, tls=True) == url.replace("http:", "https:")


def test_the_doctor_asks_each_node(asked: list[str]) -> None:
    asyncio.run(observation._figures(NODE, Security()))
    asyncio.run(observation._figures(NODE, Security(tls=True, user="u", password="p")))
    assert asked == ["http://queue-2:9872/metrics", "https://queue-2:9872/metrics"]
    assert asyncio.run(observation._figures(replace(NODE, http_address=""), Security())) is None


def test_the_bundle_asks_each_node(asked: list[str]) -> None:
    class Silent:
        async def ask(self, *_: Any) -> None:
            return None

    files = bundle.BundleFiles()
    asyncio.run(bundle._ask_node(files, cast(ConsoleAdmin, Silent()), NODE, "queue-1:9871"))
    assert asked == ["http://queue-2:9872/metrics"]
    assert files.files == {"node-2/metrics.txt": "ledgermq_raft_term 7\n"}
