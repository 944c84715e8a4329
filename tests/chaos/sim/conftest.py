"""Fixtures for tests of the simulator."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing

import pytest

from chaos.sim.campaign.swarm import Options
from chaos.sim.stack.stack_world import StackWorld

NewStackWorld = Callable[[Options], StackWorld]


@pytest.fixture
def new_world() -> Iterator[NewStackWorld]:
    """Yield a function that makes stack worlds. The fixture closes them, also if the test fails. Python would end the
    tasks of an open world at some time in a later test, and pytest would report their exceptions there."""
    with ExitStack() as worlds:
        yield lambda options: worlds.enter_context(closing(StackWorld(options)))
