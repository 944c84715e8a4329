"""The command `ledgermq demo` sends a corpus through three nodes, kills the leader and checks every replica."""

from __future__ import annotations

import asyncio
import shutil
import tempfile
from dataclasses import asdict
from pathlib import Path

import click

from cluster.cli.local.containers import docker_cluster
from cluster.cli.local.demo_report import ProgressDisplay, print_outcome
from cluster.cli.options import format_option
from cluster.cli.output import data_console, note_console, print_json, say
from cluster.demo.corpus import Corpus, files_of, standard_library
from cluster.demo.failure import NothingToSendError
from cluster.demo.run import NODES, Demo, DemoOutcome
from cluster.local.processes import DevCluster

_NOTHING_TO_SEND = 2


@click.command()
@click.option(
    "--input",
    "path",
    type=click.Path(exists=True, path_type=Path),
    help="File or folder to send.  [default: Python's standard library]",
)
@click.option(
    "--data",
    type=click.Path(file_okay=False, path_type=Path),
    help="Directory of the cluster's data.  [default: a temporary directory, removed if all checks pass]",
)
@click.option(
    "--docker",
    "containers",
    metavar="NAME",
    help="Use a running cluster in containers: `compose` for docker-compose.yml, `dev` for "
    "`ledgermq dev start --docker`.",
)
@click.option(
    "--secure",
    is_flag=True,
    default=None,
    help="Start nodes with TLS and authentication. Without effect with --docker.",
)
@format_option
def demo(path: Path | None, data: Path | None, containers: str | None, secure: bool | None, output: str) -> int:
    """Send many lines of text through three nodes, kill the leader half-way, and check every replica.

    The lines come from the source files of Python's standard library, or from --input. The exit status is 0 if every
    replica has every acknowledged line exactly once, and the lines of each file in their order in the file. The exit
    status is 1 if the lines in a replica differ from the acknowledged lines, and 2 if the input has no lines.
    """
    try:
        corpus = files_of(path) if path else standard_library()
        outcome = _run(corpus, data, secure) if containers is None else _run_in_containers(corpus, containers)
    except NothingToSendError as error:
        say(f"Error: {error}")
        return _NOTHING_TO_SEND
    if output == "json":
        print_json({**asdict(outcome), "holds": outcome.holds})
    else:
        print_outcome(outcome, data_console())
    return 0 if outcome.holds else 1


def _run_in_containers(corpus: Corpus, name: str) -> DemoOutcome:
    """Run the demo on a cluster of containers that is already running. After the demo the cluster keeps running,
    and the demo's topic stays."""
    cluster = docker_cluster(name)
    with ProgressDisplay(note_console()) as display:
        display.stage(f"{len(cluster.status())} containers at {cluster.bootstrap}")
        return asyncio.run(Demo(corpus, cluster, display).run())


def _run(corpus: Corpus, data: Path | None, secure: bool | None) -> DemoOutcome:
    directory = data or Path(tempfile.mkdtemp(prefix="ledgermq-demo-"))
    cluster = DevCluster(directory)
    with ProgressDisplay(note_console()) as display:
        display.stage(f"starting {NODES} nodes, data in {cluster.directory}")
        try:
            outcome = _run_on(cluster, corpus, display, secure)
        except (NothingToSendError, KeyboardInterrupt):
            _discard(cluster, data)
            raise
        except Exception:
            display.stage(f"failed; the data stays in {cluster.directory}")
            raise
    if outcome.holds:
        _discard(cluster, data)
    else:
        say(f"the data stays in {cluster.directory}")
    return outcome


def _run_on(cluster: DevCluster, corpus: Corpus, display: ProgressDisplay, secure: bool | None) -> DemoOutcome:
    """Run the demo on this cluster. If the cluster was not running before, it is stopped after the demo."""
    ran_before = cluster.exists and cluster.running
    try:
        cluster.start(NODES, secure=secure)
        return asyncio.run(Demo(corpus, cluster, display).run())
    finally:
        if not ran_before:
            cluster.stop()


def _discard(cluster: DevCluster, kept: Path | None) -> None:
    if kept is None:
        cluster.purge()
        shutil.rmtree(cluster.directory, ignore_errors=True)
