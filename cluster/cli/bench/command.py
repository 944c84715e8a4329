"""The command `ledgermq bench` measures a running cluster through its clients."""

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
from cluster.cli.command_group import CommandGroup
from cluster.cli.failure import CommandError
from cluster.cli.options import FiniteRange, bootstrap_option
from cluster.cli.output import say
from cluster.load.processes import run_loop
from cluster.load.stamped_payloads import STAMP_BYTES, PayloadCheck, Verified
from cluster.load.topics import filled_topic, prepare_topic
from cluster.local.processes import DEFAULT_DIRECTORY, DevCluster
from ledger.client.records import TopicDescription


@click.group(cls=CommandGroup)
def bench() -> None:
    """Measure throughput, latency and failover of a running cluster.

    The messages have random values, so compression does not make them smaller. The last line of the output has the
    format of kafka-producer-perf-test. 1 MB is 10^6 bytes of message values.
    """


@bench.command()
@topic_option
@load_options(queues=4)
@by_option
@count_option
@seconds_option
@rate_option(None, "Messages per second, each sent and measured from its due time.  [default: as fast as possible]")
@click.option(
    "--processes",
    type=click.IntRange(1, 256),
    default=1,
    show_default=True,
    help="Number of processes that share the load. Each process uses at most one core.",
)
@click.option("--verify", is_flag=True, help="Read all messages back, and compare them with what was sent.")
@bootstrap_option
@output_options
def produce(bootstrap: str, output: str, processes: int, verify: bool, queues: int | None, **given: Any) -> int:
    """Measure producing: acknowledged messages per second, and the latency of acknowledgements.

    With `--by send-many` the latency of a message is the latency of its call. With --rate the latency begins when a
    message is due, so a pause also counts for each message that had to wait.
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
    "--topic",
    default="bench",
    show_default=True,
    help="Existing topic, for example one that `ledgermq bench produce` filled.",
)
@shape_option
@click.option(
    "--group", help="Consume as this consumer group, from its offsets on. A new group begins at the first message."
)
@click.option(
    "--consumers",
    type=click.IntRange(1, 1024),
    default=1,
    show_default=True,
    help="Number of consumers, which share the queues.",
)
@count_option
@click.option("--seconds", type=FiniteRange(min=0.1), help="Stop after this many seconds.  [default: no limit]")
@click.option("--verify", is_flag=True, help="Compare every message with what was sent. The measurement is slower.")
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
    """Measure consuming: read a topic from its first message to its present end, and report messages per second.

    The clock starts before the first consumer starts, and stops when the last message has arrived.
    """
    if group is not None and shape == "arrays":
        raise click.UsageError("a consumer group delivers messages one by one: leave out --group or --as arrays")
    if verify and (count or seconds or group):
        raise click.UsageError("--verify compares a whole topic: leave out --count, --seconds and --group")
    found = run_loop(filled_topic(bootstrap, topic))
    if consumers > found.queues:
        raise CommandError(
            f"topic {topic} has only {found.queues} queues, so some of the {consumers} consumers would have no queue: "
            f"give fewer --consumers, or add queues with `ledgermq topic alter {topic} --queues {consumers}`"
        )
    if verify and any(each.first_offset for each in found.offsets):
        raise CommandError(
            f"retention has removed the first messages of topic {topic}, so --verify cannot compare all: leave it out"
        )
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
@click.option("--topic", default="bench-e2e", show_default=True, help="Topic; created if missing, and kept.")
@load_options(queues=4)
@by_option
@shape_option
@count_option
@seconds_option
@rate_option(10_000, "Messages per second.")
@bootstrap_option
@output_options
def e2e(bootstrap: str, output: str, shape: Any, queues: int | None, **given: Any) -> int:
    """Measure end-to-end latency: from the time a message is due until a consumer has it.

    With `--by send-many`, all messages that are due within one millisecond are sent in one call.
    """
    load = load_of(bootstrap, given)
    if load.size < STAMP_BYTES:
        raise click.UsageError(
            f"--size {load.size} is too small: a message needs {STAMP_BYTES} bytes or more for its number"
        )
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
@click.option("--topic", default="bench-failover", show_default=True, help="Topic; created if missing, and kept.")
@load_options(queues=1)
@click.option("--seconds", type=FiniteRange(min=0.1), default=30, show_default=True, help="Duration in seconds.")
@rate_option(1_000, "Messages per second.")
@click.option("--transfer", is_flag=True, help="Transfer leadership repeatedly, instead of waiting for a failure.")
@click.option("--every", type=FiniteRange(min=0.5), default=5, show_default=True, help="Seconds between two transfers.")
@bootstrap_option
@output_options
def failover(bootstrap: str, output: str, transfer: bool, every: float, queues: int | None, **given: Any) -> int:
    """Measure failover: how long no message of a queue is acknowledged when the leader of the queue changes.

    Without --transfer, you must stop or disconnect the leader yourself during the measurement. The exit status is 1 if
    the leader did not change.
    """
    load = load_of(bootstrap, {**given, "count": None, "way": "send"})
    topic = run_loop(prepare_topic(bootstrap, load.topic, queues, default=1))
    if topic.queues != 1:
        raise CommandError(
            f"topic {topic.name} has {topic.queues} queues, and failover needs a topic with one: give another --topic"
        )
    transfers = Transfers(topic.shards[0], every) if transfer else None
    if transfers is None:
        say(f"stop the leader of shard {topic.shards[0]} within {load.seconds:g} s: `ledgermq cluster info` shows it")
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
        say(f"leadership was not transferred: {sentence}")
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
@click.option("--seconds", type=FiniteRange(min=1), default=10, show_default=True, help="Duration in seconds.")
@click.option(
    "--pid",
    "pids",
    type=click.IntRange(min=1),
    multiple=True,
    help="Process id of a node on this machine. Repeat it for more nodes.",
)
@click.option(
    "--metrics", "addresses", metavar="HOST:PORT", multiple=True, help="HTTP port of a node. Repeat it for more nodes."
)
@output_options
def idle(seconds: float, pids: tuple[int, ...], addresses: tuple[str, ...], output: str) -> int:
    """Measure idle nodes: the share of a core and the memory (without mapped files) that each node uses.

    Without --pid and --metrics, the command measures the nodes of the local cluster of the current directory.
    """
    sources = [process_source(pid) for pid in pids] + [metrics_source(address) for address in addresses]
    print_uses(measure_idle(sources or _local_nodes(), seconds), seconds, output)
    return 0


def _local_nodes() -> list[Source]:
    cluster = DevCluster(DEFAULT_DIRECTORY)
    states = cluster.status() if cluster.exists else []
    found = [process_source(state.pid, f"node {state.id}") for state in states if state.pid is not None]
    if not found:
        raise click.UsageError("no local cluster runs in this directory: give nodes with --metrics HOST:PORT or --pid")
    return found


def _check_shares(load: ProducerLoad, processes: int) -> None:
    if load.producers < processes or load.in_flight < load.producers:
        raise click.UsageError(
            f"{processes} processes, {load.producers} producers and {load.in_flight} sends in flight do not fit: give "
            "at least as many --producers as --processes, and at least as many --in-flight as --producers"
        )


def _produced(load: ProducerLoad, sents: list[ProducerFigures], processes: int) -> Figures:
    """Combine the figures of all processes; the time runs from the earliest start to the latest end."""
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
