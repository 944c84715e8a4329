"""The command `ledgermq rocketmq mirror` copies topics from RocketMQ 5 servers to the cluster."""

from __future__ import annotations

import asyncio
import os
import socket
import time
import uuid
from collections.abc import Mapping
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click

from cluster.cli.command_group import CommandGroup
from cluster.cli.failure import CommandError
from cluster.cli.options import REQUEST_TIMEOUT_MS, FiniteRange, bootstrap_option, format_option
from cluster.cli.output import say
from cluster.cli.progress_line import progress_told
from cluster.cli.rocketmq.mirror_report import MirrorReport
from cluster.cli.stopping import run_until_stopped
from ledger.client.admin.admin import AsyncAdmin
from ledger.client.producer.producer import AsyncProducer
from ledger.errors import UnknownTopicError
from ledger.rocketmq.mirror.mirror import Mirror
from ledger.rocketmq.mirror.mirror_tally import MirrorTally
from ledger.rocketmq.mirror.source_routes import SourceRoute
from ledger.rocketmq.mirror.source_settings import (
    MAX_INVISIBLE_S,
    MIN_INVISIBLE_S,
    MirrorError,
    SourceAddress,
    SourceSettings,
)
from ledger.topics import MAX_QUEUES

_MIB = 1 << 20
_CLOSE_S = 3.0
# A send ends before the servers hand its message out again.
_MARGIN_S = 5
_A_FILE = click.Path(exists=True, dir_okay=False, path_type=Path)


class MirroredTopicType(click.ParamType[tuple[str, str]]):
    """The click type of a topic to copy: TOPIC, or TOPIC=NAME if it has another name in the cluster."""

    name = "topic"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[str, str]:
        if isinstance(value, tuple):
            return value
        source, equals, target = value.partition("=")
        if not source or (equals and not target):
            self.fail(f"{value!r} is no topic: give TOPIC, or TOPIC=NAME", param, ctx)
        return source, target or source


class SourceAddressesType(click.ParamType[tuple[SourceAddress, ...]]):
    """The click type of one or more addresses, with semicolons between."""

    name = "addresses"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[SourceAddress, ...]:
        if isinstance(value, tuple):
            return value
        try:
            return tuple(SourceAddress.parse(part) for part in value.split(";"))
        except ValueError as error:
            self.fail(str(error), param, ctx)


@click.group(cls=CommandGroup)
def rocketmq() -> None:
    """Copy topics from RocketMQ servers."""


@rocketmq.command()
@click.argument("topics", nargs=-1, required=True, type=MirroredTopicType(), metavar="TOPIC[=NAME]...")
@click.option(
    "--from",
    "source",
    required=True,
    type=SourceAddressesType(),
    metavar="HOST:PORT;...",
    help="Addresses of one or more proxies: the ports at which RocketMQ 5's clients begin.",
)
@click.option(
    "--group",
    default="ledgermq-mirror",
    show_default=True,
    help="Consumer group at the servers. It keeps the place of the mirror.",
)
@click.option("--create-topics", is_flag=True, help="Create topics that are missing, with as many queues as there.")
@click.option(
    "--until-empty",
    type=FiniteRange(min=1),
    metavar="SECONDS",
    help="End when the servers had no message for this time.  [default: copy until Ctrl-C]",
)
@click.option(
    "--buffer-mb",
    type=click.IntRange(1, 65_536),
    default=64,
    show_default=True,
    help="Hold at most so many MiB of messages that are on their way.",
)
@click.option(
    "--invisible",
    "invisible_s",
    type=click.IntRange(MIN_INVISIBLE_S, MAX_INVISIBLE_S),
    default=30,
    show_default=True,
    help="Seconds after which the servers hand out again what was not acknowledged.",
)
@click.option("--from-tls", is_flag=True, help="Use TLS to the servers.")
@click.option("--from-ca", type=_A_FILE, help="Authorities of the servers' certificates (PEM); turns on --from-tls.")
@click.option("--from-server-name", default="", help="Name in the servers' certificates, if it is not their host.")
@click.option("--from-access-key", default="", help="Access key at the servers.")
@click.option("--from-secret-file", type=_A_FILE, help="File with the secret of --from-access-key.")
@bootstrap_option
@format_option
def mirror(
    topics: tuple[tuple[str, str], ...],
    source: tuple[SourceAddress, ...],
    group: str,
    create_topics: bool,
    until_empty: float | None,
    buffer_mb: int,
    invisible_s: int,
    from_tls: bool,
    from_ca: Path | None,
    from_server_name: str,
    from_access_key: str,
    from_secret_file: Path | None,
    bootstrap: str,
    output: str,
) -> int:
    """Copy each TOPIC from RocketMQ 5 servers to the cluster, to the topic NAME or to one of the same name.

    Keys, tag, properties, message group, message id and the producer's time are kept. A message is acknowledged at the
    servers when the cluster has it. The next start of the command continues where the last one ended. A message that is
    copied again within five minutes is stored once. Messages that wait for a delivery time or for the end of a
    transaction are copied when the servers deliver them.

    A message that the cluster cannot store, for example because it is too large, goes to the dead letters of GROUP at
    the servers, and the exit status is 1.
    """
    targets = _targets(topics)
    if bool(from_access_key) != (from_secret_file is not None):
        raise click.UsageError("give both --from-access-key and --from-secret-file, or neither")
    settings = SourceSettings(
        source,
        group,
        f"{socket.gethostname()}@{os.getpid()}@mirror@{uuid.uuid4().hex[:12]}",
        tls=from_tls or from_ca is not None,
        ca=None if from_ca is None else from_ca.read_bytes(),
        server_name=from_server_name,
        access_key=from_access_key,
        secret="" if from_secret_file is None else _secret(from_secret_file),
        invisible_s=invisible_s,
    )
    producer = AsyncProducer[bytes](
        bootstrap,
        buffer_bytes=2 * buffer_mb * _MIB,
        delivery_timeout_ms=(invisible_s - _MARGIN_S) * 1000,
        request_timeout_ms=REQUEST_TIMEOUT_MS,
    )
    report = MirrorReport(MirrorTally(), time.monotonic())
    try:
        run_until_stopped(
            _mirror(settings, targets, producer, report, bootstrap, create_topics, until_empty, buffer_mb * _MIB)
        )
    except MirrorError as error:
        raise CommandError(str(error)) from error
    finally:
        report.show(output)
    return 1 if report.tally.left_out else 0


def _targets(topics: tuple[tuple[str, str], ...]) -> dict[str, str]:
    targets = dict(topics)
    if len(targets) != len(set(topics)):
        raise click.UsageError("a topic is copied to one topic: name each TOPIC once")
    return targets


def _secret(path: Path) -> str:
    try:
        secret = path.read_text(encoding="utf-8").split("\n", 1)[0].strip()
    except UnicodeDecodeError:
        secret = ""
    if not secret:
        raise CommandError(f"{path} has no secret on its first line")
    return secret


async def _mirror(
    settings: SourceSettings,
    targets: Mapping[str, str],
    producer: AsyncProducer[bytes],
    report: MirrorReport,
    bootstrap: str,
    create_topics: bool,
    until_empty_s: float | None,
    buffer_bytes: int,
) -> None:
    await producer.start()
    mirror = Mirror(settings, targets, producer, lambda: datetime.now(UTC), buffer_bytes)
    report.tally = mirror.tally
    try:
        routes = await mirror.open()
        await _prepare(bootstrap, targets, routes, create_topics)
        for topic in mirror.unordered(routes):
            say(
                f"Group {settings.group} has no order at the servers, so messages of one message group of topic "
                f"{topic} may change places if the mirror is interrupted: make the group orderly there "
                "(docs/ROCKETMQ.md)."
            )
        report.began_s = time.monotonic()
        async with progress_told(report.so_far):
            await mirror.run(until_empty_s)
    finally:
        await mirror.close()
        with suppress(TimeoutError):
            async with asyncio.timeout(_CLOSE_S):
                await producer.stop()


async def _prepare(
    bootstrap: str, targets: Mapping[str, str], routes: Mapping[str, SourceRoute], create_topics: bool
) -> None:
    """Create missing topics if asked to. Raises CommandError if a topic is missing or takes no copies."""
    async with AsyncAdmin(bootstrap, request_timeout_ms=REQUEST_TIMEOUT_MS) as admin:
        for source, target in targets.items():
            route = routes[source]
            try:
                kind = (await admin.describe_topic(target)).type
            except UnknownTopicError:
                if not create_topics:
                    raise CommandError(
                        f"the cluster has no topic {target!r}: create it with `ledgermq topic create {target} --queues "
                        f"{route.queues}`, or give --create-topics"
                    ) from None
                kind = "fifo" if route.only_groups else "mixed"
                queues = min(route.queues, MAX_QUEUES)
                await admin.create_topic(target, queues, exist_ok=True, type=kind)
                say(f"Created topic {target} with {queues} queues and the type {kind}.")
            if kind in ("delay", "transaction"):
                raise CommandError(
                    f"topic {target!r} has the type {kind}, which takes no copies: change it while the mirror runs "
                    f"(`ledgermq topic alter {target} --type mixed`)"
                )
