"""Seeds of the protocol world in every test run: about a minute on one core.

`ledgermq sim --seeds 1..100000`, or `make sim SEEDS=100000`, for more.
"""

from __future__ import annotations

import pytest

from chaos.sim.campaign.campaign import Totals
from chaos.sim.campaign.run import run
from chaos.sim.campaign.swarm import Wishes
from chaos.sim.engine.faults import PROTOCOL, kinds_of

pytestmark = pytest.mark.long

BLOCKS, SEEDS_A_BLOCK = 20, 12
MINUTES = 1.0


@pytest.fixture(scope="module")
def totals() -> Totals:
    return Totals()


@pytest.mark.parametrize("block", range(BLOCKS))
def test_seeds_pass(block: int, totals: Totals) -> None:
    for seed in range(1 + block * SEEDS_A_BLOCK, 1 + (block + 1) * SEEDS_A_BLOCK):
        report = run(seed, Wishes(minutes=MINUTES))
        totals.add(report)
        assert report.passed, f"ledgermq sim --seeds {seed} --minutes {MINUTES:g}: {report.reason}"


def test_together_they_were_no_walk_in_the_park(totals: Totals) -> None:
    """The seeds together had enough faults and messages; a run that proves nothing must not pass."""
    if totals.seeds < BLOCKS * SEEDS_A_BLOCK:
        pytest.skip("not all blocks of seeds were run")
    never = {kind.name for kind in kinds_of(PROTOCOL, 5)} - set(totals.happened)
    assert never == set()
    assert totals.figures["acknowledged"] > 10 * totals.simulated_ms / 1000 * 0.7
    assert totals.figures["leaders"] > 2 * totals.seeds
    assert totals.figures["reads"] > totals.seeds
