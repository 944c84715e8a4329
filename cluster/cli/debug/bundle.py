"""The command `ledgermq debug bundle` writes what a helper needs to know about a cluster into one file.

    bundle.zip
      README.txt                what is in the file, and which questions had no answer
      doctor.txt                the findings of `ledgermq doctor`
      cluster.json              nodes, replicas, members, topics, consumer groups, holds
      versions.json             of the nodes, and of the program that wrote the file
      node-1/settings.json      the settings of a node, without secrets
      node-1/log.txt            its newest log lines
      node-1/audit.txt          its newest administrative acts
      node-1/metrics.txt        its metrics
      node-1/events.json        elections, votes, damage and repairs
      node-1/slow.json          slow requests, and where their time went
      node-1/shard-0.json       the headers of the last entries of a replica, without messages

The file has names of topics, consumer groups, users and hosts. It has no message, no password, no token and no key.
"""

from __future__ import annotations

import asyncio
import io
import json
import platform
import zipfile
from collections.abc import Awaitable, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeVar

import click
import grpc
from google.protobuf.json_format import MessageToDict

from cluster.cli.doctor.findings import findings
from cluster.cli.doctor.observation import observe
from cluster.cli.failure import CommandError
from cluster.cli.options import REQUEST_TIMEOUT_MS, bootstrap_option
from cluster.cli.output import say
from cluster.console.clients import ConsoleAdmin
from ledger.client.connection.security import security_of
from ledger.client.records import NodeStatus
from ledger.errors import LedgerError, PermissionDeniedError
from ledger.private_file import make_private
from ledger.v1 import inspection_pb2
from ledger.validation.sources.access import HttpAccess
from ledger.validation.sources.errors import SourceError
from ledger.validation.sources.node_urls import http_url
from ledger.version import VERSION

T = TypeVar("T")
ANSWER_S = 10.0
# The headers of this many entries of each replica, and of at most this many replicas of a node.
ENTRIES = 100
MAX_REPLICAS = 64
README = """This file was written by `ledgermq debug bundle` at {time}, for the cluster {cluster}.

It has the names of topics, consumer groups, users and hosts, the settings of the nodes, and their newest log lines.
It has no messages, passwords, tokens or keys.

Questions without an answer:
{unanswered}
"""


@click.command()
@click.option(
    "--out",
    type=click.Path(dir_okay=False, path_type=Path),
    default=None,
    help="File to write; an existing file is not replaced.  [default: ledgermq-bundle-TIME.zip]",
)
@bootstrap_option
def bundle(out: Path | None, bootstrap: str) -> int:
    """Write versions, settings without secrets, logs, metrics, log heads and the doctor's findings into one zip file.

    The file helps people who do not have your cluster. It has no messages, passwords, tokens or keys, but names of
    topics, groups, users and hosts: read it before you pass it on. Needs the right to administer the cluster; without
    it, the file has less, and says so.

    The exit status is 1 if a question had no answer.
    """
    now = datetime.now(UTC)
    out = out or Path(f"ledgermq-bundle-{now:%Y%m%d-%H%M%S}.zip")
    if out.exists():
        raise CommandError(f"{out} exists already: choose another file with --out")
    collected = asyncio.run(_collected(bootstrap))
    files = collected.files | {"README.txt": collected.readme(now)}
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, text in sorted(files.items()):
            archive.writestr(name, text)
    try:
        make_private(out, packed.getvalue())
    except OSError as error:
        raise CommandError(f"{out} cannot be written: {error.strerror}") from error
    for question in collected.unanswered:
        say(f"No answer: {question}")
    say(f"Wrote {out} ({out.stat().st_size:,} bytes, {len(files)} files). Read it before you pass it on.")
    return 1 if collected.unanswered else 0


class BundleFiles:
    """The files of a bundle by name, and the questions that had no answer."""

    def __init__(self) -> None:
        self.files: dict[str, str] = {}
        self.unanswered: list[str] = []
        self.cluster = ""

    def readme(self, now: datetime) -> str:
        unanswered = "\n".join(f"- {question}" for question in self.unanswered) or "none"
        return README.format(time=now.isoformat(timespec="seconds"), cluster=self.cluster, unanswered=unanswered)

    def add_json(self, name: str, value: Any) -> None:
        self.files[name] = json.dumps(value, indent=2, default=str) + "\n"

    async def answer(self, question: str, answer: Awaitable[T]) -> T | None:
        """Return the answer, or None if there is none."""
        try:
            return await answer
        except (LedgerError, SourceError) as error:
            self.unanswered.append(f"{question}: {error}")
            return None


async def _collected(bootstrap: str) -> BundleFiles:
    """Ask all nodes. Raises LedgerError if no node answers."""
    found = BundleFiles()
    await _examine(found, bootstrap)
    async with ConsoleAdmin(bootstrap, request_timeout_ms=REQUEST_TIMEOUT_MS) as admin:
        nodes = await found.answer("nodes", admin.cluster()) or []
        await _ask_cluster(found, admin, nodes)
        for node in nodes:
            if node.reachable:
                say(f"asking node {node.node} of {len(nodes)} nodes")
                await _ask_node(found, admin, node, bootstrap)
            else:
                found.unanswered.append(f"node {node.node} at {node.address}: {node.error}")
        slow = await found.answer("slow requests", admin.slow_requests())
        for each in slow or ():
            found.add_json(f"node-{each.node}/slow.json", asdict(each))
    return found


async def _examine(found: BundleFiles, bootstrap: str) -> None:
    """Add what the doctor finds. Raises LedgerError if no node answers."""
    try:
        seen = await observe(bootstrap)
    except PermissionDeniedError as error:
        found.unanswered.append(f"what the doctor finds: {error}")
        return
    found.unanswered += seen.unanswered
    lines = [f"{each.urgency}: {each.what}\n  > {each.command}" for each in findings(seen, datetime.now(UTC))]
    found.files["doctor.txt"] = "\n".join(lines or ["nothing is wrong"]) + "\n"


async def _ask_cluster(found: BundleFiles, admin: ConsoleAdmin, nodes: Sequence[NodeStatus]) -> None:
    found.cluster = next((node.cluster for node in nodes if node.cluster), "")
    versions = {f"node-{node.node}": node.version for node in nodes if node.reachable}
    own = {"ledgermq": VERSION, "python": platform.python_version(), "grpc": grpc.__version__}
    found.add_json("versions.json", {**versions, "written by": own})
    shards = await found.answer("shards", admin.shards()) or []
    members = {shard: await found.answer(f"members of shard {shard}", admin.members(shard=shard)) for shard in shards}
    topics = await found.answer("topics", admin.list_topics()) or []
    groups = await found.answer("consumer groups", admin.list_consumer_groups()) or []
    holds = await found.answer("holds", admin.log_holds()) or []
    found.add_json(
        "cluster.json",
        {
            "nodes": [asdict(node) for node in nodes],
            "members": {shard: asdict(each) for shard, each in members.items() if each is not None},
            "topics": [asdict(topic) for topic in topics],
            "consumer_groups": [asdict(group) for group in groups],
            "holds": [asdict(hold) for hold in holds],
        },
    )


async def _ask_node(found: BundleFiles, admin: ConsoleAdmin, node: NodeStatus, bootstrap: str) -> None:
    folder = f"node-{node.node}"

    async def asked(question: str, method: str, request: Any) -> Any:
        answer = admin.ask(
            node.address, lambda stub, seconds: getattr(stub, method)(request, timeout=seconds), ANSWER_S
        )
        return await found.answer(f"{question} of node {node.node}", answer)

    if report := await asked("settings and log", "GetNodeReport", inspection_pb2.GetNodeReportRequest()):
        found.files[f"{folder}/settings.json"] = report.settings + "\n"
        found.files[f"{folder}/log.txt"] = "\n".join(report.log_lines) + "\n"
        found.add_json(f"{folder}/versions.json", dict(report.versions))
    if audit := await asked("audit log", "GetAuditLog", inspection_pb2.GetAuditLogRequest()):
        lines = [f"{datetime.fromtimestamp(line.time_ms / 1000, UTC).isoformat()} {line.text}" for line in audit.lines]
        found.files[f"{folder}/audit.txt"] = "\n".join(lines) + "\n"
    if events := await asked("events", "GetEvents", inspection_pb2.GetEventsRequest()):
        found.add_json(f"{folder}/events.json", MessageToDict(events, preserving_proto_field_name=True))
    for shard in sorted(status.shard for status in node.shards)[:MAX_REPLICAS]:
        request = inspection_pb2.ListEntriesRequest(shard=shard, count=ENTRIES)
        if entries := await asked(f"entries of shard {shard}", "ListEntries", request):
            found.add_json(f"{folder}/shard-{shard}.json", MessageToDict(entries, preserving_proto_field_name=True))
    if url := http_url(node, tls=security_of({}, bootstrap.split(",")).tls):
        answer = asyncio.to_thread(HttpAccess().file, f"{url}/metrics")
        metrics = await found.answer(f"metrics of node {node.node}", answer)
        if metrics is not None:
            found.files[f"{folder}/metrics.txt"] = metrics.decode(errors="replace")
