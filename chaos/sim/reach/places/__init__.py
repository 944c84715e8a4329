"""The table of all places, a file for each subject. To add a place, add a line to the file of its subject.

elections.py    elections, leaders, handovers, suspects, members
following.py    followers, divergences, snapshots, clocks, failures of disks
starting.py     recovery, checkpoints, votes, writes
repairing.py    startup repair and scrub repair
consuming.py    consumer groups, fencing, moved messages, producers, feature levels
delaying.py     messages with delivery times
transacting.py  transactions
sharing.py      shared groups
requesting.py   requests and replies
producing.py    common batches of producers
moving.py       replicas that move between nodes
"""

from __future__ import annotations

from functools import cache

from chaos.sim.reach.place import NEVER, Place
from chaos.sim.reach.places import (
    consuming,
    delaying,
    elections,
    following,
    moving,
    producing,
    repairing,
    requesting,
    sharing,
    starting,
    transacting,
)
from chaos.sim.reach.probes import Probes

PLACES: tuple[Place, ...] = (
    *elections.PLACES,
    *following.PLACES,
    *starting.PLACES,
    *repairing.PLACES,
    *consuming.PLACES,
    *delaying.PLACES,
    *transacting.PLACES,
    *sharing.PLACES,
    *requesting.PLACES,
    *producing.PLACES,
    *moving.PLACES,
)


@cache
def probes_of(world: str) -> Probes:
    """Return the probes of the places that this world can reach. Only the modules of these places are imported."""
    return Probes(place for place in PLACES if place.seeds(world) != NEVER)
