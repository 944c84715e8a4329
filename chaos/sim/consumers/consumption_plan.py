"""Chooses at random, from the seed of a run, the consumer groups of the run. For each consumer group, the topics, the
client calls of the members, and the messages whose consumption fails are chosen at random from the seed.

An attempt to consume a message fails or succeeds depending only on the seed, the consumer group, the message's name
and the number of the attempt. The consumption of some messages fails once or twice. The consumption of a few messages
always fails, and these messages must end in the dead letters.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from random import Random
from typing import Literal

import xxhash

from chaos.sim.campaign.swarm import CONSUMER_GROUPS, Options

# Largest number of members of a consumer group at the start.
MOST_MEMBERS = 4
TAG_EXPRESSIONS = (None, None, None, "*", "tag", "none || tag")
RETRY_DELAYS_S = ((1.0, 2.0, 4.0), (0.5, 3.0), (2.0,))
# Number of failures of a message that can never be consumed.
NEVER = 1_000_000


class Style(Enum):
    """Names the way in which a member receives messages: which client class the member uses, and which method."""

    # The user code finishes each message, or puts it off.
    PULL = "pull"
    # All messages of a read are finished by the next read.
    ITERATE = "iterate"
    CONCURRENT = "concurrent"
    ORDERLY = "orderly"


@dataclass(frozen=True, slots=True)
class GroupPlan:
    """What one consumer group does in a run. All members of one consumer group follow the same plan."""

    seed: int
    name: str
    topics: tuple[str, ...]
    style: Style
    # Number of members at the start.
    members: int
    strategy: str
    tags: str | None
    start: Literal["earliest", "latest"]
    session_timeout_ms: int
    release_timeout_ms: int
    max_attempts: int
    concurrency: int

    def failures_of(self, name: bytes) -> int:
        """Return how many attempts to consume the message with this name must fail before an attempt succeeds."""
        chance = xxhash.xxh3_64_intdigest(b"%d/%s/%s" % (self.seed, self.name.encode(), name)) % 100
        return NEVER if chance < 2 else 2 if chance < 4 else 1 if chance < 8 else 0

    def wants(self, tag: str | None) -> bool:
        """Return whether the group's filter accepts a message with this tag."""
        return self.tags in (None, "*") or (tag is not None and tag in str(self.tags).split(" || "))


def draw_groups(options: Options, topics: int) -> list[GroupPlan]:
    """Choose at random the consumer groups of a run that has this number of topics. The topics are named `t0`,
    `t1`, ..."""
    random = options.chance("consumer groups")
    random.choice(CONSUMER_GROUPS)  # unused: `options` has drawn the number of groups; keeps the random stream as it is
    return [_drawn(options.seed, f"g{number}", random, topics) for number in range(options.consumer_groups)]


def _drawn(seed: int, name: str, random: Random, topics: int) -> GroupPlan:
    names = [f"t{number}" for number in range(topics)]
    return GroupPlan(
        seed=seed,
        name=name,
        topics=tuple(names if random.random() < 0.5 else [random.choice(names)]),
        style=random.choice(list(Style)),
        members=random.randint(1, MOST_MEMBERS),
        strategy=random.choice(("average", "average", "circle", "consistent_hash")),
        tags=random.choice(TAG_EXPRESSIONS),
        start=random.choice(("earliest", "earliest", "latest")),
        session_timeout_ms=random.choice((1_500, 3_000, 6_000)),
        release_timeout_ms=random.choice((500, 5_000, 30_000)),
        max_attempts=random.choice((3, 4)),
        concurrency=random.choice((1, 3, 20)),
    )
