"""Parses the filters of members, each text once, and without holding up other requests."""

from __future__ import annotations

from collections import OrderedDict

from ledger.broker.turn_budget import TurnBudget
from ledger.filters.parse import MessageFilter, parse_filter

# Parsed filters that are kept. After a failover all members of a group come with the same filters.
MAX_KEPT = 256
# Characters that take a step of a turn to parse, about 50 us.
_STEP_CHARACTERS = 24


class FilterParser:
    """Parses filters, and keeps those that were used last."""

    def __init__(self, budget: TurnBudget) -> None:
        self._budget = budget
        self._kept: OrderedDict[str, MessageFilter] = OrderedDict()

    async def parse(self, text: str) -> MessageFilter:
        """Return the filter. Raises InvalidArgumentError, which names the place of a mistake."""
        if text not in self._kept:
            await self._budget.spend(1 + len(text) // _STEP_CHARACTERS)
            self._kept[text] = parse_filter(text)
            if len(self._kept) > MAX_KEPT:
                self._kept.popitem(last=False)
        self._kept.move_to_end(text)
        return self._kept[text]
