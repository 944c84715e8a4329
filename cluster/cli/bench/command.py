"""`ledgermq bench`: measures a cluster that runs, as its users would see it."""

from __future__ import annotations

from dataclasses import asdict, replace
from typing import Any

import click

from cluster.bench.consuming import ConsumerLoad, Consuming
from cluster.bench.end_to_end import EndToEnd
from cluster.bench.failover import Transfers, measure_failover
from cluster.bench.figures import Figures
from cluster.bench.idle import Source, measure_idle, metrics_source, process_source
from cluster.bench.latencies import Latencies
from cluster.bench.producing import ProducerFigures, ProducerLoad, run_load
from cluster.cli.bench.options import (
    by_option,
    count_option,
    load_of,
    load_options,
    output_options,
    rate_option,
    seconds_option,
    shape_option,
    topic_option,
)
from cluster.cli.bench.output import ProgressLine, print_figures, print_uses
from cluster.cli.failure import CommandError
from cluster.cli.options import bootstrap_option
from cluster.cli.output import say
from cluster.load.processes import run_loop
from cluster.load.stamped_payloads import STAMP_BYTES, PayloadCheck, Verified
from cluster.load.topics import filled_topic, prepare_topic
from cluster.local.processes import DEFAULT_DIRECTORY, DevCluster
from ledger.client.records import TopicDescription


@click.group()
def bench() -> None:
    """Measure a cluster that runs: produce, consume, e2e, failover, idle.

    Payloads are random and all different, so that nothing compresses them. The last line is as
    kafka-producer-perf-test has it; MB are 10^6 bytes of message values.
    """


@bench.command()
@topic_option
@load_options(queues=4)
@by_option
@count_option
@seconds_option
@rate_option(
    None, "Messages a second, sent when they are due, and measured from then on.  [default: as fast as it goes]"
)
@click.option(
    "--processes",
    type=click.IntRange(1, 256),
    default=1,
    show_default=True,
    help="So many processes share the load and its clients; each is asyncio tasks on one core.",
)
@click.option("--verify", is_flag=True, help="Read it all back, and compare it with what was sent.")
@bootstrap_option
@output_options
def produce(bootstrap: str, output: str, processes: int, verify: bool, queues: int | None, **given: Any) -> int:
    """Send messages, and say how many a second a majority acknowledged, and how long that took.

    By send-many a call's latency is that of each of its messages. With --rate latencies count from when a message was
    due, so that a pause does not hide what it kept waiting.
    """
    load = load_of(bootstrap, given)
    _check_shares(load, processes)
    if verify and load.size < STAMP_BYTES:
        raise click.UsageError(f"--verify needs messages of {STAMP_BYTES} bytes or more: --size {load.size}")
    topic = run_loop(prepare_topic(bootstrap, load.topic, queues))
    with ProgressLine("sent") as progress:
        sents = run_load(load, processes, progress)
    figures = _produced(load, sents, processes)
    verified = _read_back(load, topic, sents) if verify else None
    if verified is not None:
        figures.more["verified"] = asdict(verified)
    print_figures(figures, output)
    if verified is not None:
        say(f"read back: {verified}")
    return 1 if figures.failed or (verified is not None and not verified.holds) else 0


@bench.command()
@click.option(
    "--topic", default="bench", show_default=True, help="One that is there: `ledgermq bench produce` fills it."
)
@shape_option
@click.option("--group", help="Through this consumer group, which begins at the beginning only if it is a new one.")
@click.option("--consumers", type=click.IntRange(1, 1024), default=1, show_default=True, help="They share the queues.")
@count_option
@click.option("--seconds", type=click.FloatRange(min=0.1), help="No longer than that.")
@click.option("--verify", is_flag=True, help="Compare every message with what was sent, and count them; takes time.")
@bootstrap_option
@output_options
def consume(
    topic: str,
    shape: Any,
    group: str | None,
    consumers: int,
    count: int | None,
    seconds: float | None,
    verify: bool,
    bootstrap: str,
    output: str,
) -> int:
    """Read a topic from its first message to where it ends now, and say how many a second came.

    The clock runs from before the first consumer starts until the last message is there.
    """
    if group is not None and shape == "arrays":
        raise click.UsageError("consumer groups hand out messages: leave out --group, or --as arrays")
    if verify and (count or seconds or group):
        raise click.UsageError("--verify compares a whole topic: leave out --count, --seconds and --group")
    found = run_loop(filled_topic(bootstrap, topic))
    if consumers > found.queues:
        raise CommandError(
            f"topic {topic} has {found.queues} queues, so no more consumers than that have something to read: "
            f"give fewer --consumers, or the topic more queues (`ledgermq topic alter {topic} --queues {consumers}`)"
        )
    if verify and any(each.first_offset for each in found.offsets):
        raise CommandError(f"topic {topic} has lost its first messages to retention: it cannot be verified as a whole")
    reading = ConsumerLoad(bootstrap, found, shape, group, consumers, count or 0, seconds or 0.0)
    check = PayloadCheck() if verify else None
    got = run_loop(_consume(reading, check))
    more: dict[str, Any] = {"consumers": consumers}
    verified = None if check is None else check.verified()
    if verified is not None:
        more["verified"] = asdict(verified)
    setting = {"topic": topic, "as": shape, "group": group, "consumers": consumers, "queues": found.queues}
    print_figures(Figures("consumed", got.records, got.size, got.seconds, more=more, setting=setting), output)
    if verified is not None:
        say(f"compared: {verified}")
    return 0 if verified is None or verified.holds else 1


@bench.command()
@click.option("--topic", default="bench-e2e", show_default=True, help="Made where it is not there; it stays.")
@load_options(queues=4)
@by_option
@shape_option
@count_option
@seconds_option
@rate_option(10_000, "Messages a second.")
@bootstrap_option
@output_options
def e2e(bootstrap: str, output: str, shape: Any, queues: int | None, **given: Any) -> int:
    """Send messages at a rate, and say how long it takes from when each was due until a consumer has it.

    By send-many, what became due within a millisecond goes in one call.
    """
    load = load_of(bootstrap, given)
    if load.size < STAMP_BYTES:
        raise click.UsageError(f"--size {load.size}: a message needs {STAMP_BYTES} bytes to say which one it is")
    _check_shares(load, 1)
    run_loop(prepare_topic(bootstrap, load.topic, queues))
    with ProgressLine("arrived") as progress:
        sent, arrived = run_loop(_end_to_end(load, shape, progress))
    seconds = (max(arrived.last_ns, sent.start_ns) - sent.start_ns) / 1e9
    acknowledged = sent.latencies.summary()
    more: dict[str, Any] = {"errors": sent.errors}
    if acknowledged is not None:
        more |= {"acknowledged_p50_ms": acknowledged.p50_ms, "acknowledged_p99_ms": acknowledged.p99_ms}
    size, setting = arrived.records * load.size, {**_setting(load), "as": shape}
    latency = arrived.latencies.summary()
    print_figures(Figures("arrived", arrived.records, size, seconds, latency, sent.failed, more, setting), output)
    return 1 if sent.failed else 0


@bench.command()
@click.option("--topic", default="bench-failover", show_default=True, help="Made where it is not there; it stays.")
@load_options(queues=1)
@click.option("--seconds", type=click.FloatRange(min=0.1), default=30, show_default=True, help="How long.")
@rate_option(1_000, "Messages a second.")
@click.option(
    "--transfer", is_flag=True, help="Hand leadership over, again and again, instead of waiting for a failure."
)
@click.option(
    "--every", type=click.FloatRange(min=0.5), default=5, show_default=True, help="Seconds between such transfers."
)
@bootstrap_option
@output_options
def failover(bootstrap: str, output: str, transfer: bool, every: float, queues: int | None, **given: Any) -> int:
    """Send at a rate to one queue, and say how long no write is acknowledged when its leader changes.

    Without --transfer it is you who makes the leader go meanwhile: kill it, stop it, cut it off. The status is 1 if it
    stayed.
    """
    load = load_of(bootstrap, {**given, "count": None, "way": "send"})
    topic = run_loop(prepare_topic(bootstrap, load.topic, queues, default=1))
    if topic.queues != 1:
        raise CommandError(f"topic {topic.name} has {topic.queues} queues, and this needs one: name another --topic")
    transfers = Transfers(topic.shards[0], every) if transfer else None
    if transfers is None:
        say(
            f"make the leader of group {topic.shards[0]} go within {load.seconds:g} s: `ledgermq cluster info` names it"
        )
    with ProgressLine("acknowledged") as progress:
        sent, changes, refused = run_loop(measure_failover(load, transfers, progress))
    more = {
        "changes": [asdict(change) for change in changes.found],
        "longest_silence_s": round(changes.longest_silence_s, 4),
        "longest_no_write_s": round(max((change.no_write_s for change in changes.found), default=0.0), 4),
        "errors": sent.errors,
    }
    figures = replace(_produced(load, [sent], 1), more=more)
    for sentence in refused:
        say(f"not handed over: {sentence}")
    for change in changes.found if output == "text" else ():
        click.echo(
            f"{change.at_s:.1f} s: term {change.term_before} to {change.term}, "
            f"{change.no_write_s * 1000:.0f} ms without an acknowledged write"
        )
    print_figures(figures, output)
    if not changes.found:
        say("the leader did not change, so no failover was measured")
    return 0 if changes.found and not sent.failed else 1


@bench.command()
@click.option("--seconds", type=click.FloatRange(min=1), default=10, show_default=True, help="How long.")
@click.option("--pid", "pids", type=click.IntRange(min=1), multiple=True, help="A node process here; may be repeated.")
@click.option("--metrics", "addresses", metavar="HOST:PORT", multiple=True, help="A node's HTTP port; may be repeated.")
@output_options
def idle(seconds: float, pids: tuple[int, ...], addresses: tuple[str, ...], output: str) -> int:
    """What each node takes of a core, and of memory (mapped files apart), while you let it alone.

    Without --pid or --metrics: the nodes of the local cluster here.
    """
    sources = [process_source(pid) for pid in pids] + [metrics_source(address) for address in addresses]
    print_uses(measure_idle(sources or _local_nodes(), seconds), seconds, output)
    return 0


def _local_nodes() -> list[Source]:
    cluster = DevCluster(DEFAULT_DIRECTORY)
    states = cluster.status() if cluster.exists else []
    found = [process_source(state.pid, f"node {state.id}") for state in states if state.pid is not None]
    if not found:
        raise click.UsageError("no local cluster runs here: name nodes by --metrics HOST:PORT or --pid")
    return found


def _check_shares(load: ProducerLoad, processes: int) -> None:
    if load.producers < processes or load.in_flight < load.producers:
        raise click.UsageError(
            f"{processes} processes, {load.producers} producers, {load.in_flight} in flight: each process needs a "
            "producer, and each producer something in flight"
        )


def _produced(load: ProducerLoad, sents: list[ProducerFigures], processes: int) -> Figures:
    """Of all processes together, from the first start to the last end."""
    latencies, errors = Latencies(), dict[str, int]()
    for sent in sents:
        latencies.merge(sent.latencies)
        for name, count in sent.errors.items():
            errors[name] = errors.get(name, 0) + count
    seconds = (max(sent.end_ns for sent in sents) - min(sent.start_ns for sent in sents)) / 1e9
    records = sum(sent.records for sent in sents)
    cpu_s = round(sum(sent.cpu_s for sent in sents), 4)
    failed = sum(sent.failed for sent in sents)
    warm_up = sum(sent.total for sent in sents) - records - failed
    more = {
        "client_cpu_s": cpu_s,
        "warm_up_records": warm_up,
        "unknown": sum(sent.unknown for sent in sents),
        "errors": errors,
    }
    setting = {**_setting(load), "processes": processes}
    return Figures("sent", records, records * load.size, seconds, latencies.summary(), failed, more, setting)


def _setting(load: ProducerLoad) -> dict[str, Any]:
    return {name: value for name, value in asdict(load).items() if name not in ("bootstrap", "run", "part")}


def _read_back(load: ProducerLoad, before: TopicDescription, sents: list[ProducerFigures]) -> Verified:
    topic = run_loop(filled_topic(load.bootstrap, load.topic))
    check = PayloadCheck(only=load.run)
    begin = tuple(each.end_offset for each in before.offsets)
    run_loop(_consume(ConsumerLoad(load.bootstrap, topic, "arrays", begin=begin), check))
    return check.verified({sent.part: sent.total for sent in sents}, sum(sent.failed for sent in sents))


async def _consume(reading: ConsumerLoad, check: PayloadCheck | None) -> Any:
    with ProgressLine("consumed") as progress:
        return await Consuming(reading, check, progress).run()


async def _end_to_end(load: ProducerLoad, shape: Any, progress: ProgressLine) -> Any:
    return await EndToEnd(load, shape, progress).run()
