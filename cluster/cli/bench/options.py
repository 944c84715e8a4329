"""Options that the parts of `ledgermq bench` share, and the load that they describe."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

from cluster.bench.producing import ProducerLoad
from cluster.cli.cluster.log_start import Size
from cluster.load.stamped_payloads import new_run

Command = TypeVar("Command", bound=Callable[..., Any])

TOPIC = "bench"
SECONDS = 10.0
IN_FLIGHT = {"send": 1000, "send-many": 4}
CALLS_AT_A_RATE = 16
"""Calls of send_many are small then: what has become due within a millisecond."""


def together(*options: Callable[[Any], Any]) -> Callable[[Command], Command]:
    """Several options as one."""

    def add(command: Command) -> Command:
        for option in reversed(options):
            command = option(command)
        return command

    return add


output_options = together(
    click.option(
        "--format",
        "output",
        type=click.Choice(["text", "json", "csv"]),
        default="text",
        show_default=True,
        help="A line for people, or for programs.",
    ),
    click.option("--json", "output", flag_value="json", help="The same as --format json."),
    click.option("--csv", "output", flag_value="csv", help="The same as --format csv."),
)

topic_option = click.option("--topic", default=TOPIC, show_default=True, help="Made where it is not there; it stays.")
seconds_option = click.option(
    "--seconds", type=click.FloatRange(min=0.1), help=f"How long.  [default: {SECONDS:g}, where no --count is given]"
)
count_option = click.option("--count", type=click.IntRange(min=1), help="How many messages.")


def rate_option(default: float | None, note: str) -> Callable[[Command], Command]:
    return click.option(
        "--rate", type=click.FloatRange(min=0.1), default=default, show_default=bool(default), help=note
    )


def load_options(queues: int) -> Callable[[Command], Command]:
    """What messages are like, and how they are sent."""
    return together(
        click.option(
            "--queues", type=click.IntRange(1, 1024), help=f"Of the topic, where it is made.  [default: {queues}]"
        ),
        click.option(
            "--size", type=Size(), default="128", show_default=True, help="Bytes of each message, such as 128 or 1K."
        ),
        click.option(
            "--in-flight",
            type=click.IntRange(1, 1_000_000),
            help="So many sends at a time.  [default: 1000; by send-many: 4 calls, with --rate 16]",
        ),
        click.option(
            "--producers",
            type=click.IntRange(1, 10_000),
            default=1,
            show_default=True,
            help="So many clients (AsyncProducer).",
        ),
        click.option("--batch-bytes", type=Size(), default="256K", show_default=True, help="A batch is full at that."),
        click.option(
            "--linger-ms", type=click.FloatRange(min=0), default=5, show_default=True, help="As AsyncProducer's."
        ),
        click.option(
            "--keys",
            type=click.IntRange(min=0),
            default=0,
            help="So many keys, in turn, one for each send or call.  [default: none]",
        ),
        click.option("--compression", type=click.Choice(["lz4", "zstd"]), help="Compress batches.  [default: no]"),
        click.option(
            "--warm-up",
            type=click.FloatRange(min=0),
            default=1,
            show_default=True,
            help="Seconds of the same load before, which do not count.",
        ),
        click.option(
            "--timeout",
            type=click.FloatRange(min=0.001),
            default=120,
            show_default=True,
            help="Seconds until a message counts as not acknowledged.",
        ),
    )


by_option = click.option(
    "--by",
    "way",
    type=click.Choice(["send", "send-many"]),
    default="send-many",
    show_default=True,
    help="One awaited `send` for each message, or `send_many` for many together.",
)
shape_option = click.option(
    "--as",
    "shape",
    type=click.Choice(["arrays", "objects"]),
    default="objects",
    show_default=True,
    help="How messages are consumed: as Message objects, or as the columns of their batches.",
)


def load_of(bootstrap: str, given: dict[str, Any]) -> ProducerLoad:
    """The load that these options describe; of `seconds` and `count` one may be None, or both."""
    seconds, count, way = given["seconds"], given["count"], given["way"]
    in_flight = CALLS_AT_A_RATE if given["rate"] and way == "send-many" else IN_FLIGHT[way]
    return ProducerLoad(
        bootstrap=bootstrap,
        topic=given["topic"],
        size=given["size"],
        way=way,
        count=count or 0,
        seconds=seconds or (0.0 if count else SECONDS),
        rate=given["rate"] or 0.0,
        warm_up_s=given["warm_up"],
        in_flight=given["in_flight"] or max(in_flight, given["producers"]),
        producers=given["producers"],
        batch_bytes=given["batch_bytes"],
        linger_ms=given["linger_ms"],
        compression=given["compression"],
        keys=given["keys"],
        timeout_ms=max(1, round(given["timeout"] * 1000)),
        run=new_run(),
    )
