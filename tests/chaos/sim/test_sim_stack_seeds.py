"""A fixed number of seeds of the stack world: about a minute of every test run."""

from __future__ import annotations

import pytest

from chaos.sim.campaign.run import run
from chaos.sim.campaign.swarm import Wishes

pytestmark = pytest.mark.long

SEEDS = range(1, 25)
WISHES = Wishes(world="stack", minutes=1.0)


@pytest.mark.parametrize("seed", SEEDS)
def test_seed(seed: int) -> None:
    report = run(seed, WISHES)
    assert not report.failed, f"{report.reason}\nreplay: ledgermq sim --world stack --seeds {seed} --minutes 1"
