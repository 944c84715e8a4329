"""Which downloads a node admits, and how slow a client may be. The clock is the test's."""

from __future__ import annotations

from contextlib import ExitStack

import pytest
from aiohttp import web
from aiohttp.test_utils import make_mocked_request

from cluster.node.http.downloads import WINDOW_S, DownloadLimits, DownloadPace, Downloads
from cluster.node.http.http_rights import CALLER


def request_of(user: str) -> web.Request:
    request = make_mocked_request("GET", "/shards/0/segments/0")
    request[CALLER] = user
    return request


def test_one_caller_cannot_take_all_places() -> None:
    downloads = Downloads(DownloadLimits(most=3, most_of_a_caller=2))
    with ExitStack() as held:
        for user in ("alice", "alice", "bob"):
            held.enter_context(downloads.place(request_of(user)))
        for user in ("alice", "carol"):
            with pytest.raises(web.HTTPServiceUnavailable) as refused, downloads.place(request_of(user)):
                raise AssertionError("there is no place")
            assert refused.value.headers["Retry-After"] == "1"
            assert "try again" in (refused.value.text or "")
    with downloads.place(request_of("carol")):
        pass


class Clock:
    def __init__(self) -> None:
        self.now_s = 5.0

    def __call__(self) -> float:
        return self.now_s


@pytest.mark.parametrize(("count", "pause_s"), [(1, 29.0), (0, 0.1), (999 * 10, 10.0)])
def test_a_client_below_the_least_rate_is_ended(count: int, pause_s: float) -> None:
    clock = Clock()
    pace = DownloadPace(1000, clock)

    def download() -> None:
        while clock.now_s <= 5 + 2 * WINDOW_S:
            clock.now_s += pause_s
            pace.moved(count)

    with pytest.raises(ConnectionError, match="least rate of a download is 1000 bytes"):
        download()


def test_a_client_at_the_least_rate_goes_on() -> None:
    clock = Clock()
    pace = DownloadPace(1000, clock)
    for _ in range(1000):
        clock.now_s += 10
        pace.moved(10_000)


def test_a_client_may_pause_within_a_window() -> None:
    clock = Clock()
    pace = DownloadPace(1000, clock)
    for _ in range(10):
        clock.now_s += WINDOW_S - 1
        pace.moved(0)
        clock.now_s += 1
        pace.moved(int(1000 * WINDOW_S))
