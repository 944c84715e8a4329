"""Draws the options of a run from its seed: the cluster, the network quality, the load, and the fault kinds. The
options are drawn by the method of swarm testing. A run that uses every fault kind finds few bugs, because some faults
hide the effects of other faults. For this reason each seed leaves out about half of the fault kinds, and draws a
frequency for each remaining fault kind. All random choices of a run follow from its seed. Each group of choices, such
as the choices about the network or about one fault kind, has a separate random stream that is derived from the seed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random

from chaos.sim.engine.faults import KINDS, RATES, STACK, FaultKind, kinds_of
from chaos.sim.engine.links import Conditions

# Numbers of consumer groups; a run draws one of these.
CONSUMER_GROUPS = (0, 0, 1, 1, 2)
# Share of the stack seeds with authentication.
AUTHENTICATED = 0.35
# Share of the other stack seeds in which some nodes begin with an older program.
TWO_VERSIONS = 0.4
# Share of these seeds in which the older programs know the feature level 2. Those of the others know the level 0 or 1.
OF_LEVEL_2 = 1 / 3
# Shares of the sends that have delivery times; a stack run draws one of these.
TIMED_SHARES = (0.0, 0.0, 0.0, 0.1, 0.4)
# Programs that send messages in transactions; a stack run draws one of these numbers.
TRANSACTION_PROGRAMS = (0, 0, 0, 2, 3)
# Members of a shared group; a stack run without old programs draws one of these numbers.
SHARED_MEMBERS = (0, 0, 0, 2, 4)
# Programs that send requests; a stack run draws one of these numbers.
REQUESTERS = (0, 0, 0, 0, 1, 2)
# Shares of the producers whose messages have ids; a stack run draws one of these.
NAMED_SHARES = (0.0, 0.0, 0.0, 0.5, 1.0)
NEVER_MS = 1 << 40
# Share of the seeds that have four or five nodes, beside those that draw so many anyway.
MORE_VOTERS = 0.2
# Sends per second of all producers of a stack run together; about one in ten is a send_many. Sends are most of the work
# of a run, and faults need few of them: a run at the lowest rate takes half the CPU time of a run at the highest.
SENDS_PER_SECOND = (2.0, 5.0, 11.0)


@dataclass(frozen=True, slots=True)
class Options:
    """All settings of one run."""

    seed: int
    world: str
    nodes: int
    # True: acknowledged means that a majority has fsynced. False: a majority has written to its page cache.
    sync: bool
    minutes: float
    conditions: Conditions
    # The fault kinds of this run in the order of `faults.KINDS`, each with a factor for its usual frequency.
    strengths: tuple[tuple[str, float], ...]
    # Fault kinds that were requested by name. If one of them never has an effect, the run proves nothing.
    requested: tuple[str, ...]
    tick_ms: int
    heartbeat_ticks: int
    election_ticks: int
    # Mean duration of a flush.
    flush_ms: float
    flush_interval_ms: int
    vote_ms: float
    # Largest number of bytes in one Append message.
    append_bytes: int
    max_uncommitted_bytes: int
    producers: int
    queues: int
    # Rate of all producers together.
    sends_per_second: float
    largest_batch: int
    in_flight: int
    reads_per_second: float
    consumer_groups: int = 0
    # Shards at the end of the run. The nodes start with `first_shards`; the simulated operator adds the others.
    shards: int = 1
    first_shards: int = 1
    # Nodes buffer writes in memory of the process, so the end of a process loses what it had not flushed.
    staged: bool = False
    # A majority may lose power under `async`. Lost acknowledged messages are counted and are not a violation.
    accepted_loss: bool = False
    # Nodes ask who their callers are, and an administrator changes users and rights (chaos/sim/access).
    authentication: bool = False
    # Nodes that begin with an older program -> (the feature level that it knows, when the node gets the present program
    # in ms). Such a run has two versions (chaos/sim/stack/versions.py).
    old_programs: tuple[tuple[int, tuple[int, int]], ...] = ()
    # The share of the sends with delivery times.
    timed_share: float = 0.0
    # Programs that send messages in transactions.
    transaction_programs: int = 0
    # Members of a shared group, and whether it has order by key and a filter.
    shared_members: int = 0
    shared_by_key: bool = False
    shared_filters: bool = False
    # Programs that send requests and wait for replies (chaos/sim/requests).
    requesters: int = 0
    # The share of producers whose messages have ids.
    named_share: float = 0.0

    @property
    def has_faults(self) -> bool:
        """Whether the run has scheduled faults or error rates of the network above zero."""
        calm = (self.conditions.loss, self.conditions.duplicate, self.conditions.reorder, self.conditions.replay)
        return bool(self.strengths) or any(calm)

    @property
    def duration_ms(self) -> int:
        return round(self.minutes * 60_000)

    def chance(self, concern: str) -> Random:
        """Return the random stream for one named group of choices."""
        return Random(f"{self.seed}/{concern}")


@dataclass(frozen=True, slots=True)
class Wishes:
    """The options that the user of the simulator fixed for all seeds. All options that the user did not fix are
    drawn for each seed."""

    world: str = "protocol"
    minutes: float = 5.0
    nodes: int | None = None
    shards: int | None = None
    # None: the seed draws the fault kinds. (): no faults.
    faults: tuple[str, ...] | None = None
    accepted_loss: bool = False


def draw(seed: int, wishes: Wishes) -> Options:
    """Return the options that this seed draws."""
    random = Random(f"{seed}/options")
    asked = [KINDS[name] for name in wishes.faults or () if name in KINDS]
    least = max((kind.least_nodes for kind in asked), default=1)
    drawn_nodes = random.choice((1, 2, 3, 3, 3, 3, 3, 4, 5, 5))
    nodes = wishes.nodes or max(least, _more_voters(seed) or drawn_nodes)
    shards = _shards(seed, wishes, asked)
    sync = random.random() < 0.6 or any(kind.needs_sync(nodes) for kind in asked)
    sync = sync and not wishes.accepted_loss and not any(kind.needs_async for kind in asked)
    everything = kinds_of(wishes.world, nodes, shards)
    kinds = [kind for kind in everything if kind.share is None]
    of_nodes = [kind.name for kind in kinds if not (kind.least_shards or kind.of_consumers or kind.of_access)]
    strengths = _strengths(random, wishes, [*RATES, *of_nodes])
    # Own random streams: the faults of nodes stay the same with one shard, with several, and with consumer groups.
    of_shards = [kind.name for kind in kinds if kind.least_shards]
    strengths += _strengths(Random(f"{seed}/several groups"), wishes, of_shards)
    of_consumers = [kind.name for kind in kinds if kind.of_consumers]
    consumer_groups = _consumer_groups(seed, wishes)
    if consumer_groups:
        strengths += _strengths(Random(f"{seed}/consumers"), wishes, of_consumers)
    authentication = _has_authentication(seed, wishes, asked)
    if authentication:
        of_access = [kind.name for kind in kinds if kind.of_access]
        strengths += _strengths(Random(f"{seed}/access faults"), wishes, of_access)
    possible = [kind for kind in everything if authentication or not kind.of_access]
    has_timed = _timed_share(seed, wishes, asked) > 0
    possible = [kind for kind in possible if has_timed or not kind.of_timed]
    programs = _transaction_programs(seed, wishes, asked)
    possible = [kind for kind in possible if programs or not kind.of_transactions]
    asks_shared = any(kind.of_shared for kind in asked)
    asks_transactions = any(kind.of_transactions for kind in asked)
    no_old = authentication or asks_transactions or asks_shared
    old_programs = () if no_old else _old_programs(seed, wishes, nodes)
    members = 0 if old_programs else _shared_members(seed, wishes, asked)
    possible = [kind for kind in possible if members or not kind.of_shared]
    requesters = _requesters(seed, wishes, asked)
    possible = [kind for kind in possible if requesters or not kind.of_requests]
    strengths += _of_own_streams(seed, wishes, [kind for kind in possible if consumer_groups or not kind.of_consumers])
    names = [name for name, _ in strengths]
    heartbeat_ticks = random.choice((1, 2))
    return Options(
        seed=seed,
        world=wishes.world,
        nodes=nodes,
        sync=sync,
        minutes=wishes.minutes,
        conditions=_conditions(random, names),
        strengths=tuple((name, strength) for name, strength in strengths if name not in RATES),
        requested=tuple(wishes.faults or ()),
        tick_ms=random.choice((200, 300, 400)) // heartbeat_ticks,
        heartbeat_ticks=heartbeat_ticks,
        election_ticks=random.choice((4, 5, 8)) * heartbeat_ticks,
        flush_ms=random.choice((1.0, 20.0, 150.0)),
        flush_interval_ms=500,
        vote_ms=random.choice((1.0, 20.0, 100.0)),
        append_bytes=random.choice((300, 2_000, 1 << 20)),
        max_uncommitted_bytes=random.choice((3_000, 20_000, 1 << 20)),
        producers=random.randint(1, 4),
        queues=max(random.randint(1, 4), shards),
        sends_per_second=_sends_per_second(seed, wishes, random.choice((13.0, 16.0, 20.0))),
        largest_batch=random.choice((2, 10, 50)),
        in_flight=random.randint(1, 5),
        reads_per_second=random.choice((0.2, 0.5, 1.0)),
        consumer_groups=consumer_groups,
        shards=shards,
        first_shards=Random(f"{seed}/first groups").randint(1, shards - 1) if "add_group" in names else shards,
        # Under `async`, each end of a process would lose acknowledged messages, and few faults would remain possible.
        staged=wishes.world == STACK and sync and Random(f"{seed}/staged").random() < 0.4,
        accepted_loss=wishes.accepted_loss,
        authentication=authentication,
        old_programs=old_programs,
        timed_share=_timed_share(seed, wishes, asked),
        transaction_programs=programs,
        shared_members=members,
        shared_by_key=Random(f"{seed}/shared by key").random() < 0.5,
        shared_filters=Random(f"{seed}/shared filter").random() < 0.4,
        requesters=requesters,
        named_share=0.0
        if old_programs or wishes.world != STACK
        else Random(f"{seed}/message ids").choice(NAMED_SHARES),
    )


def _timed_share(seed: int, wishes: Wishes, asked: Sequence[FaultKind]) -> float:
    """Draw the share of the sends that have delivery times. If the user named a fault kind of such messages, it is the
    largest one."""
    if wishes.world != STACK:
        return 0.0
    if any(kind.of_timed for kind in asked):
        return max(TIMED_SHARES)
    return Random(f"{seed}/timed messages").choice(TIMED_SHARES)


def _transaction_programs(seed: int, wishes: Wishes, asked: Sequence[FaultKind]) -> int:
    """Draw the number of programs with transactions. If the user named a fault kind of transactions, it is the largest
    one."""
    if wishes.world != STACK:
        return 0
    if any(kind.of_transactions for kind in asked):
        return max(TRANSACTION_PROGRAMS)
    return Random(f"{seed}/transactions").choice(TRANSACTION_PROGRAMS)


def _shared_members(seed: int, wishes: Wishes, asked: Sequence[FaultKind]) -> int:
    """Draw the number of members of a shared group. If the user named a fault kind of shared groups, it is the largest
    one."""
    if wishes.world != STACK:
        return 0
    if any(kind.of_shared for kind in asked):
        return max(SHARED_MEMBERS)
    return Random(f"{seed}/shared groups").choice(SHARED_MEMBERS)


def _requesters(seed: int, wishes: Wishes, asked: Sequence[FaultKind]) -> int:
    """Draw the number of programs that send requests. If the user named a fault kind of requests, it is the largest
    one."""
    if wishes.world != STACK:
        return 0
    if any(kind.of_requests for kind in asked):
        return max(REQUESTERS)
    return Random(f"{seed}/requesters").choice(REQUESTERS)


def _sends_per_second(seed: int, wishes: Wishes, of_protocol: float) -> float:
    """Draw the rate of the load. If the user named fault kinds, a stack run has the highest rate, because such a run
    searches for the moments in which these faults meet the load."""
    if wishes.world != STACK:
        return of_protocol
    return max(SENDS_PER_SECOND) if wishes.faults else Random(f"{seed}/sends").choice(SENDS_PER_SECOND)


def _more_voters(seed: int) -> int:
    """Return four or five for some seeds, and 0 for the others, which draw their number of nodes as before."""
    random = Random(f"{seed}/more voters")
    return random.choice((4, 5)) if random.random() < MORE_VOTERS else 0


def _has_authentication(seed: int, wishes: Wishes, asked: Sequence[FaultKind]) -> bool:
    """Draw whether nodes ask who their callers are. If the user named fault kinds of transactions or shared groups,
    nodes ask only if the user also named a kind of users and rights."""
    if wishes.world != STACK or any(kind.of_access for kind in asked):
        return wishes.world == STACK
    if any(kind.of_transactions or kind.of_shared for kind in asked):
        return False
    return Random(f"{seed}/authentication").random() < AUTHENTICATED


def _old_programs(seed: int, wishes: Wishes, nodes: int) -> tuple[tuple[int, tuple[int, int]], ...]:
    """Draw the nodes that begin with an older program. Some of them keep it until the end of the run."""
    random = Random(f"{seed}/versions")
    if wishes.world != STACK or wishes.faults == () or random.random() >= TWO_VERSIONS:
        return ()
    level, stays = random.choice((0, 1)), random.random() < 0.3
    if Random(f"{seed}/versions of level 2").random() < OF_LEVEL_2:
        level = 2
    old = sorted(random.sample(range(1, nodes + 1), random.randint(1, nodes)))
    times = [round(random.uniform(0.1, 0.9) * wishes.minutes * 60_000) for _ in old]
    if stays:
        times[-1] = NEVER_MS
    return tuple((node, (level, at_ms)) for node, at_ms in zip(old, times, strict=True))


def _consumer_groups(seed: int, wishes: Wishes) -> int:
    """Draw the number of consumer groups. The number of consumer groups is at least 1 if the user named a fault
    kind that hits members of consumer groups."""
    if wishes.world != STACK:
        return 0
    wanted = any(name in KINDS and KINDS[name].of_consumers for name in wishes.faults or ())
    return max(int(wanted), Random(f"{seed}/consumer groups").choice(CONSUMER_GROUPS))


def _shards(seed: int, wishes: Wishes, asked: Sequence[FaultKind]) -> int:
    if wishes.world != STACK:
        return 1
    least = max((kind.least_shards for kind in asked), default=1)
    return wishes.shards or max(least, Random(f"{seed}/groups").choice((1, 1, 1, 2, 3, 4)))


def _strengths(random: Random, wishes: Wishes, names: Sequence[str]) -> list[tuple[str, float]]:
    """Draw the fault kinds of this run, each with a factor for its frequency."""
    share = random.choice((0.25, 0.5, 0.75))
    drawn: list[tuple[str, float]] = []
    for name in names:
        there, strength = random.random() < share, random.choice((0.3, 1.0, 3.0))
        if wishes.faults is not None:
            there = name in wishes.faults
            strength = max(strength, 1.0)
        if there:
            drawn.append((name, strength))
    return drawn


def _of_own_streams(seed: int, wishes: Wishes, kinds: Sequence[FaultKind]) -> list[tuple[str, float]]:
    """Draw the fault kinds that have a random stream of their own."""
    drawn: list[tuple[str, float]] = []
    for kind in kinds:
        if kind.share is None:
            continue
        random = Random(f"{seed}/fault {kind.name}")
        there, strength = random.random() < kind.share, random.choice((0.3, 1.0, 3.0))
        if wishes.faults is not None:
            there, strength = kind.name in wishes.faults, max(strength, 1.0)
        if there:
            drawn.append((kind.name, strength))
    return drawn


def _conditions(random: Random, names: Sequence[str]) -> Conditions:
    """Draw the delays and error rates of the network. An error rate is above zero only if its name is in `names`."""
    slow = random.choice((5.0, 20.0, 60.0))
    loss, duplicate, reorder, replay = (random.choice((0.002, 0.02, 0.1)) for _ in range(4))
    return Conditions(
        delay_ms=random.choice((0.1, 0.5, 2.0)),
        spread_ms=slow if "delay" in names else random.choice((0.1, 1.0)),
        loss=loss if "loss" in names else 0.0,
        duplicate=duplicate if "duplicate" in names else 0.0,
        reorder=reorder if "reorder" in names else 0.0,
        replay=replay / 2 if "replay" in names else 0.0,
    )
