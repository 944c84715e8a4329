"""What pages say if the cluster stops answering: an operation that was done is told, and lists ask to try again."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest
from aiohttp.test_utils import make_mocked_request
from aiohttp.web import Response

from cluster.console.console import Console, Page, Visit
from cluster.console.logins import Visitor
from cluster.console.page import Pages
from cluster.console.pages import operations_page, timers_page, transactions_page
from ledger.broker.access.callers import ANYBODY
from ledger.errors import UnavailableError


class SilentCluster:
    """An admin client: the cluster pauses its moves, and answers nothing else."""

    async def pause_placement(self) -> None:
        pass

    async def silent(self, *_: object, **__: object) -> None:
        raise UnavailableError("no node answers")

    placement = shards = waiting_messages = transactions = silent


def visit_of(path: str, **match_info: str) -> Visit:
    """Return the request of a visitor without authentication."""

    async def admin(_: str) -> Any:
        return SilentCluster()

    pages = Pages({"root": "/console", "cluster": "c", "node": 1, "pages_of": lambda _: []})
    console = SimpleNamespace(pages=pages, clients=SimpleNamespace(admin=admin), now_ms=lambda: 0)
    request = make_mocked_request("GET", path, match_info=match_info)
    return Visit(request, Visitor(ANYBODY, "", "proof", None), cast(Console, console), {})


async def test_the_result_of_an_operation_is_shown_although_the_page_cannot_be() -> None:
    answer = await operations_page.carry_out(visit_of("/console/operations/pause-moves", action="pause-moves"))
    assert isinstance(answer, Response)
    assert answer.status == 200
    assert "All moves of replicas are paused." in str(answer.text)
    assert "no node answers" in str(answer.text)


@pytest.mark.parametrize("show", [timers_page.show, transactions_page.show])
async def test_a_list_is_loaded_again_if_no_node_answers(show: Page) -> None:
    """The console answers this error with the status 503 and a page that the browser loads again."""
    with pytest.raises(UnavailableError):
        await show(visit_of("/console/list"))
