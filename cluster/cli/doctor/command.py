"""The command `ledgermq doctor`."""

from __future__ import annotations

import asyncio
from collections import Counter
from dataclasses import asdict
from datetime import UTC, datetime

import click

from cluster.cli.doctor.finding import DoctorFinding
from cluster.cli.doctor.findings import findings
from cluster.cli.doctor.observation import Observation, observe
from cluster.cli.options import bootstrap_option, format_option
from cluster.cli.output import print_json, say
from cluster.cli.verdict import gives_verdict
from ledger.words import counted


@click.command()
@bootstrap_option
@format_option
@gives_verdict
def doctor(bootstrap: str, output: str) -> int:
    """List what is wrong with the cluster, the most urgent first, each with the command that helps.

    The doctor asks all nodes for their replicas, members, holds, consumer groups, metrics and certificates. It
    changes nothing. "critical" means that messages cannot be written or read, or soon cannot. "warning" means that
    something must be done. "note" means that nothing must be done now.

    The exit status is 0 if there is no critical finding and no warning, otherwise 1.
    """
    seen = asyncio.run(observe(bootstrap))
    found = findings(seen, datetime.now(UTC))
    urgent = [finding for finding in found if finding.urgency != "note"]
    if output == "json":
        print_json({"healthy": not urgent, "findings": [asdict(finding) for finding in found]})
    else:
        for finding in found:
            click.echo(f"{finding.urgency:<8}  {_on_one_line(finding.what)}\n{'':<10}> {_on_one_line(finding.command)}")
        say(_summary(seen, found))
    return 1 if urgent else 0


def _on_one_line(text: str) -> str:
    """Return the text without what a terminal would obey: parts of it come from nodes and from clients."""
    return "".join(each if each.isprintable() else "?" for each in text)


def _summary(seen: Observation, found: list[DoctorFinding]) -> str:
    nodes = [node for node in seen.nodes if node.reachable]
    shards = {shard.shard for node in nodes for shard in node.shards}
    answering = f"{len(nodes)} of " if len(nodes) < len(seen.nodes) else ""
    groups = counted(len(seen.groups), "consumer group")
    looked = f"{answering}{counted(len(seen.nodes), 'node')}, {counted(len(shards), 'shard')}, {groups}"
    counts = Counter(finding.urgency for finding in found)
    if not counts["critical"] and not counts["warning"]:
        return f"Nothing is wrong: {looked}."
    return f"{counts['critical']:,} critical, {counted(counts['warning'], 'warning')} ({looked})."
