"""The plan of a run: which fault begins when, aims at whom, and lasts how long. Pure: a seed gives the same plan again.

Who leads when the time has come is not known now, so a plan names a target (`leader`), and a number that stands for
chance; the nemesis makes nodes of them. The last fault is over long before the end, so that a run can show that the
cluster recovers.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain, repeat
from random import Random

from chaos.live.faults.fault import Kind, Target

QUIET_AT_FIRST_S = 2.0
QUIET_AT_LAST_S = 5.0
_GAP_S = (1.0, 3.0)


@dataclass(frozen=True, slots=True)
class Planned:
    """`at_s`: since the load began. `seed`: of whatever else is drawn when it strikes."""

    at_s: float
    kind: Kind
    target: Target
    for_s: float
    seed: int


def plan(seed: int, kinds: Sequence[Kind], seconds: float, targets: Sequence[Target] = ()) -> tuple[Planned, ...]:
    """One fault after the other, each kind as often as the others (give or take one), in an order by chance; `targets`:
    only at these, where a kind allows one of them. A run that is too short for a single fault has an empty plan."""
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


def aimed(target: Target, nodes: Sequence[int], leader: int, random: Random) -> list[int]:
    """The nodes that a target means at this moment. Without a leader, any node stands for it."""
    minority = (len(nodes) - 1) // 2
    match target:
        case Target.LEADER:
            return [leader if leader in nodes else random.choice(list(nodes))]
        case Target.ONE:
            return [random.choice(list(nodes))]
        case Target.MINORITY:
            return random.sample(list(nodes), max(1, minority))
        case Target.MAJORITY:
            return random.sample(list(nodes), len(nodes) - minority)
        case Target.ALL:
            return list(nodes)
