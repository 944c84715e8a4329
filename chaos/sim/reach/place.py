"""Defines a place: a statement of the product whose execution the simulator counts."""

from __future__ import annotations

from dataclasses import dataclass

# How many seeds, of at least one simulated minute each, must reach a place. See `Place.protocol`.
Seeds = int

# No run of the world can reach the place.
NEVER: Seeds = 0
# The world could reach the place, and no seed of the measurement has. No campaign fails for it.
RARE: Seeds = 1 << 40


@dataclass(frozen=True, slots=True)
class Place:
    """A statement of the product, and the seeds that are enough to reach it.

    `protocol` and `stack` say for each world how many seeds of at least one minute reach the place for certain: twenty
    times as many as were needed on average, or more (docs/SIMULATOR.md says how they are measured). A campaign of that
    many seeds that never reached the place fails."""

    # Subject and description. The subject groups places in the output.
    name: str
    # The function, as "module:Class.method".
    function: str
    # The beginning of the statement before which the place is counted. Only one statement of the function begins like
    # this. Empty: the beginning of the function.
    statement: str = ""
    # The place is counted only if this expression is true there. It may use all names of the function, and must have no
    # effects.
    when: str = ""
    protocol: Seeds = NEVER
    stack: Seeds = NEVER

    @property
    def subject(self) -> str:
        return self.name.partition(":")[0]

    @property
    def module(self) -> str:
        return self.function.partition(":")[0]

    @property
    def qualname(self) -> str:
        """The name of the function inside of its module, for example "Raft.step"."""
        return self.function.partition(":")[2]

    def seeds(self, world: str) -> Seeds:
        """Return how many seeds are enough in this world, or NEVER."""
        return self.protocol if world == "protocol" else self.stack
