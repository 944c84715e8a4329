"""Tests that a proposal gives its result to the waiting request, also if that request was cancelled."""

from __future__ import annotations

from typing import Any

import pytest

from ledger.broker.produce.proposals import ChangeProposal, StartProposal, end, new_future
from ledger.errors import NoLeaderError
from store import EntryDraft, EntryKind

DRAFT = EntryDraft(EntryKind.COMMAND, b"")


def trouble() -> Exception:
    return NoLeaderError("nobody leads")


@pytest.mark.parametrize("committed", [True, False])
async def test_whoever_asked_may_have_been_cancelled_meanwhile(committed: bool) -> None:
    """A request may be cancelled while it waits, for example when the node stops. The proposal can still be committed,
    and its result must then raise no error.
    """
    proposals: list[Any] = [StartProposal(DRAFT, trouble), ChangeProposal(DRAFT, lambda _term, _index: False, trouble)]
    for proposal in proposals:
        proposal.future.cancel()
        proposal.settled(committed)
        assert proposal.future.cancelled()


async def test_everybody_else_is_told_the_result_or_the_error() -> None:
    told, failed = new_future(), new_future()
    end(told, 7)
    end(failed, trouble())
    assert await told == 7
    with pytest.raises(NoLeaderError, match="nobody leads"):
        await failed
