"""The plan of a run: the start, the target and the duration of each fault. The plan depends only on the seed.

The leader at the time of a fault is not known in advance, so a planned fault has a target in words, such as `leader`,
and a seed for random choices. The nemesis chooses the nodes when the fault strikes. The last fault ends some seconds
before the end of the run, so that the run can show that the cluster recovers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain, repeat
from random import Random

from chaos.live.faults.fault import FaultTarget, LiveFaultKind

QUIET_AT_FIRST_S = 2.0
QUIET_AT_LAST_S = 5.0
_GAP_S = (1.0, 3.0)


@dataclass(frozen=True, slots=True)
class Planned:
    """One planned fault. `at_s` counts from the beginning of the load. `seed` determines the random choices when the
    fault strikes.
    """

    at_s: float
    kind: LiveFaultKind
    target: FaultTarget
    for_s: float
    seed: int


def plan(
    seed: int, kinds: Sequence[LiveFaultKind], seconds: float, targets: Sequence[FaultTarget] = ()
) -> tuple[Planned, ...]:
    """Return a plan in which one fault follows another. All kinds occur equally often (give or take one), in random
    order. If `targets` is given, the faults of each kind hit only the given targets. A kind of fault that can hit none
    of the given targets uses its default targets. The plan is empty if `seconds` is too short for a single fault.
    """
    assert kinds
    random = Random(f"plan {seed}")
    faults: list[Planned] = []
    at_s = QUIET_AT_FIRST_S
    for kind in chain.from_iterable(random.sample(kinds, len(kinds)) for _ in repeat(None)):
        for_s = random.uniform(*kind.seconds)
        if at_s + for_s > seconds - QUIET_AT_LAST_S:
            break
        allowed = [target for target in kind.targets if target in targets] or list(kind.targets)
        faults.append(Planned(round(at_s, 3), kind, random.choice(allowed), round(for_s, 3), random.getrandbits(32)))
        at_s += for_s + random.uniform(*_GAP_S)
    return tuple(faults)


def aimed(target: FaultTarget, nodes: Sequence[int], leader: int, random: Random) -> list[int]:
    """Return the nodes to which the name of the target (for example `leader`) refers at this moment. If there is no
    leader, a random node is the target instead."""
    minority = (len(nodes) - 1) // 2
    match target:
        case FaultTarget.LEADER:
            return [leader if leader in nodes else random.choice(list(nodes))]
        case FaultTarget.ONE:
            return [random.choice(list(nodes))]
        case FaultTarget.MINORITY:
            return random.sample(list(nodes), max(1, minority))
        case FaultTarget.MAJORITY:
            return random.sample(list(nodes), len(nodes) - minority)
        case FaultTarget.ALL:
            return list(nodes)
