"""Options that the commands of `ledgermq bench` share, and the conversion of such options to a load."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

from cluster.bench.producing import ProducerLoad
from cluster.cli.cluster.log_start import Size
from cluster.cli.options import FiniteRange
from cluster.load.stamped_payloads import new_run

Command = TypeVar("Command", bound=Callable[..., Any])

TOPIC = "bench"
SECONDS = 10.0
IN_FLIGHT = {"send": 1000, "send-many": 4}
# Default of --in-flight for send-many with --rate. A call is then small: the messages that are due within 1 ms.
CALLS_AT_A_RATE = 16


def together(*options: Callable[[Any], Any]) -> Callable[[Command], Command]:
    """Return one decorator that adds the given click options to a command, in the given order."""

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
        help="Output format: text for people, json or csv for programs.",
    ),
    click.option("--json", "output", flag_value="json", help="Short for --format json."),
    click.option("--csv", "output", flag_value="csv", help="Short for --format csv."),
)

topic_option = click.option("--topic", default=TOPIC, show_default=True, help="Topic; created if missing, and kept.")
seconds_option = click.option(
    "--seconds",
    type=FiniteRange(min=0.1),
    help=f"Duration of the load, in seconds.  [default: {SECONDS:g}, without --count]",
)
count_option = click.option("--count", type=click.IntRange(min=1), help="Number of messages.  [default: no limit]")


def rate_option(default: float | None, note: str) -> Callable[[Command], Command]:
    """Return the option --rate with this default (in messages per second) and this help text."""
    return click.option("--rate", type=FiniteRange(min=0.1), default=default, show_default=bool(default), help=note)


def load_options(queues: int) -> Callable[[Command], Command]:
    """Return the click options that describe the messages of a load and how a client sends them. `queues` is the
    number of queues that a new topic has by default."""
    return together(
        click.option(
            "--queues", type=click.IntRange(1, 1024), help=f"Queues of the topic if it is created.  [default: {queues}]"
        ),
        click.option(
            "--size",
            type=Size(),
            default="128",
            show_default=True,
            help="Size of each message in bytes, such as 128 or 1K.",
        ),
        click.option(
            "--in-flight",
            type=click.IntRange(1, 1_000_000),
            help="Sends or send_many calls in flight.  [default: 1000 sends; 4 send_many calls, or 16 with --rate]",
        ),
        click.option(
            "--producers",
            type=click.IntRange(1, 10_000),
            default=1,
            show_default=True,
            help="Number of producers (AsyncProducer).",
        ),
        click.option(
            "--batch-bytes", type=Size(), default="256K", show_default=True, help="Largest size of a batch, in bytes."
        ),
        click.option(
            "--linger-ms",
            type=FiniteRange(min=0),
            default=5,
            show_default=True,
            help="How long a batch waits for more messages, in ms.",
        ),
        click.option(
            "--keys",
            type=click.IntRange(min=0),
            default=0,
            help="Number of different keys; each send or call uses the next.  [default: no keys]",
        ),
        click.option("--compression", type=click.Choice(["lz4", "zstd"]), help="Compress batches.  [default: no]"),
        click.option(
            "--warm-up",
            type=FiniteRange(min=0),
            default=1,
            show_default=True,
            help="Seconds of the same load before the measurement.",
        ),
        click.option(
            "--timeout",
            type=FiniteRange(min=0.001),
            default=120,
            show_default=True,
            help="Seconds after which a message counts as not acknowledged.",
        ),
    )


by_option = click.option(
    "--by",
    "way",
    type=click.Choice(["send", "send-many"]),
    default="send-many",
    show_default=True,
    help="How to send: one awaited `send` for each message, or `send_many` for many messages.",
)
shape_option = click.option(
    "--as",
    "shape",
    type=click.Choice(["arrays", "objects"]),
    default="objects",
    show_default=True,
    help="How to consume: as Message objects, or as arrays of the columns of a batch.",
)


def load_of(bootstrap: str, given: dict[str, Any]) -> ProducerLoad:
    """Return the load that the options in `given` describe. If `seconds` or `count` is None, a default applies."""
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
