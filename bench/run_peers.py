"""Measures ledgermq and other message systems one after another on this machine, and compares their throughput as
ratios.

    make bench-peers                 three quarters of an hour; installs missing programs below build/peers
    .venv/bin/python -m bench.run_peers [--peers nats kafka] [--messages 1000000] [--rounds 3] [--json]

The command writes `peers.md` and `results.json` into DIRECTORY (default: bench-peers-DATE). If this machine cannot run
a peer, the command skips the peer and prints the reason. Do not use the machine for anything else while the comparison
runs.
"""

from __future__ import annotations

import argparse
import os
import shutil
import signal
import sys
import tempfile
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

from rich.console import Console

from bench.peers.awaiting import CROWDS, AwaitingRounds
from bench.peers.every import PEERS, Peer, ours
from bench.peers.installed import Installed
from bench.peers.page import PeerResults, show, write
from bench.peers.peer import PORTS, PeerClient, PeerError, Servers
from bench.peers.processes import free_ports
from bench.peers.rates import Against, ClientRates, PeerMeasurement
from bench.peers.rounds import ContestScale, Driven, Rounds
from bench.suite.machine import default_warm_gib, machine
from cluster.grpc_engine import prefer_older_engine
from cluster.local.processes import DevError

Flush = Literal["async", "sync"]


def main() -> int:
    given = arguments()
    prefer_older_engine()  # for our client and for all other clients that use gRPC
    signal.signal(signal.SIGTERM, _interrupted)  # so that servers are stopped
    console = Console(stderr=True)
    began = datetime.now(UTC)
    out = given.out or Path(f"bench-peers-{began:%Y%m%d-%H%M%S}")
    if given.directory is not None:
        given.directory.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="ledgermq-peers-", dir=given.directory) as directory:
        scale = ContestScale(
            messages=given.messages,
            rounds=given.rounds,
            seconds=given.seconds,
            in_flight=given.in_flight,
            awaiting_seconds=given.awaiting_seconds,
            awaiting_rounds=given.awaiting_rounds,
            warm_gib=given.warm_gib,
        )
        contest = Contest(Path(directory), scale, console)
        told = PeerResults(f"{began:%Y-%m-%d %H:%M} UTC", machine(), scale, contest.found, contest.skipped)
        for peer in PEERS:
            if not given.peers or peer.name in given.peers:
                contest.measure(peer)
                page = write(told, out)  # after each peer, so that an interrupted run keeps its results
    show(told, console=Console(), as_json=given.json)
    console.print(f"{page}", soft_wrap=True)
    return 0 if contest.found else 1


def _interrupted(number: int, _: object) -> None:
    raise KeyboardInterrupt(f"signal {number}")


class Contest:
    """Measures one peer after another, each between two measurements of ledgermq."""

    def __init__(self, directory: Path, scale: ContestScale, console: Console) -> None:
        self._directory, self._scale, self._console = directory, scale, console
        self._installed = Installed(say=self._say)
        self._before: dict[Flush, PeerMeasurement] = {}
        self.found: list[Against] = []
        self.skipped: dict[str, str] = {}

    def measure(self, peer: Peer) -> None:
        """Measure a peer and add the result to `found`. If the peer fails, add the reason to `skipped`."""
        self._say(peer.title)
        try:
            self._against(peer)
        except (PeerError, DevError) as error:
            self.skipped[peer.title] = str(error)
            self._say(f"  skipped: {error}")

    def _against(self, peer: Peer) -> None:
        servers = peer.servers(self._installed)
        servers.install()
        python = self._installed.python()
        flush: Flush = "sync" if servers.describe().flushes_first else "async"
        before = self._before.pop(flush, None) or self._ours(flush)
        self._before.clear()
        theirs = self._measured(peer, servers, python)
        after = self._before[flush] = self._ours(flush)
        self.found.append(Against(theirs, (before, after)))

    def _ours(self, flush: Flush) -> PeerMeasurement:
        peer = ours(flush)
        self._say(peer.title)
        return self._measured(peer, peer.servers(self._installed), Path(sys.executable))

    def _measured(self, peer: Peer, servers: Servers, python: Path) -> PeerMeasurement:
        directory, load = self._directory / peer.name, os.getloadavg()[0]
        rates = {driven: ClientRates(driven.name, peer.clients[driven.name].how) for driven in peer.driven}
        try:
            address = servers.start(directory, free_ports(PORTS))
            rounds = Rounds(python, address, self._scale, self._say)
            rounds.measure(rates)
            for driven, measured in rates.items():
                self._await_sends(python, driven, peer.clients[driven.name], address, servers, measured)
            return PeerMeasurement(peer.title, servers.describe(), list(rates.values()), load, rounds.failures)
        finally:
            servers.stop()
            shutil.rmtree(directory, ignore_errors=True)

    def _await_sends(
        self,
        python: Path,
        driven: Driven,
        kind: type[PeerClient],
        address: str,
        servers: Servers,
        measured: ClientRates,
    ) -> None:
        """Measure crowds of clients that await each send."""
        rounds = AwaitingRounds(python, driven.path, address, servers, self._scale.awaiting_seconds, self._say)
        for _ in range(self._scale.awaiting_rounds):
            for crowd in CROWDS:
                if crowd.clients <= kind.most_waiting_clients:
                    measured.awaited.append(rounds.measure(crowd))

    def _say(self, sentence: str) -> None:
        self._console.print(sentence, highlight=False, soft_wrap=True)


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    names, default = [peer.name for peer in PEERS], ContestScale()
    parser.add_argument("--peers", choices=names, nargs="+", help="measure only these peers")
    parser.add_argument(
        "--messages", type=int, default=default.messages, help="the largest number of messages in a run, at 128 B"
    )
    parser.add_argument("--rounds", type=int, default=default.rounds, help="(default: %(default)s)")
    parser.add_argument(
        "--seconds", type=float, default=default.seconds, help="how long a run should take (default: %(default)s)"
    )
    parser.add_argument("--in-flight", type=int, default=default.in_flight, help="(default: %(default)s)")
    parser.add_argument(
        "--awaiting-seconds",
        type=float,
        default=default.awaiting_seconds,
        help="how long a run takes in which each client awaits each send (default: %(default)s)",
    )
    parser.add_argument(
        "--awaiting-rounds",
        type=int,
        default=default.awaiting_rounds,
        help="how many of these runs there are of each kind (default: %(default)s; 0: none)",
    )
    parser.add_argument(
        "--warm-gib",
        type=float,
        default=default_warm_gib(),
        help="GiB of memory to touch before each client's turn in a round (default: %(default)s; 0: none)",
    )
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--out", type=Path, help="where to write (default: bench-peers-DATE)")
    parser.add_argument(
        "--directory", type=Path, help="where the servers store their data (default: a temporary directory)"
    )
    return parser.parse_args()


if __name__ == "__main__":
    raise SystemExit(main())
