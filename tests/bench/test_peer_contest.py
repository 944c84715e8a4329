"""bench/run_peers.py: a peer that is not available is skipped with the reason, and the page shows the reason."""

from __future__ import annotations

import socket
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
from rich.console import Console

from bench.peers.every import Peer
from bench.peers.installed import Installed, needed
from bench.peers.page import PeerResults, markdown
from bench.peers.peer import Description, PeerError, PeerUnavailableError
from bench.peers.processes import Processes, free_ports
from bench.peers.rounds import ContestScale
from bench.run_peers import Contest

REASON = "there is no such broker on this machine"


class MissingServers:
    """Servers that are not available and so must not be started."""

    def install(self) -> None:
        raise PeerUnavailableError(REASON)

    def start(self, directory: Path, ports: Sequence[int]) -> str:
        raise AssertionError("it was started")

    def stop(self) -> None:
        raise AssertionError("it was stopped")

    def describe(self) -> Description:
        raise AssertionError("it was described")

    @property
    def pids(self) -> Sequence[int]:
        raise AssertionError("it runs")


def test_a_peer_that_cannot_be_had_is_skipped_and_the_page_says_why(tmp_path: Path) -> None:
    contest = Contest(tmp_path, ContestScale(), Console(stderr=True))
    contest.measure(Peer("missing", "Missing MQ", lambda _: MissingServers(), {}))
    assert contest.skipped == {"Missing MQ": REASON}
    assert f"- Missing MQ: {REASON}" in markdown(PeerResults("now", {}, ContestScale(), contest.found, contest.skipped))


def test_a_program_that_no_package_has_is_named(tmp_path: Path) -> None:
    installed = Installed(tmp_path, say=lambda _: None)
    (tmp_path / "debian" / "broker").mkdir(parents=True)
    (tmp_path / "debian" / "broker.complete").touch()
    with pytest.raises(PeerUnavailableError, match="broker has no program no-such-program"):
        installed.program("broker", "no-such-program")


def test_the_packages_to_unpack_are_those_that_apt_would_install() -> None:
    simulation = "Reading package lists...\nInst erlang-base (1:25 Debian:12)\nInst broker (3.10)\nConf broker (3.10)\n"
    assert needed(simulation) == ["erlang-base", "broker"]


@pytest.mark.real
def test_servers_are_ended_with_what_they_started(tmp_path: Path) -> None:
    port = free_ports(1)[0]
    serve = f"import socket, time; it = socket.create_server(('127.0.0.1', {port})); time.sleep(60)"
    processes = Processes()
    processes.spawn(tmp_path, "shell", ["sh", "-c", f'{sys.executable} -c "{serve}" & wait'])
    processes.wait_open([port], 30)
    processes.stop()
    with pytest.raises(OSError, match="refused"):
        socket.create_connection(("127.0.0.1", port), timeout=5)


@pytest.mark.real
def test_a_server_that_ends_by_itself_is_told_with_its_last_words(tmp_path: Path) -> None:
    processes = Processes()
    processes.spawn(tmp_path, "broker", ["sh", "-c", "echo no such option; exit 3"])
    with pytest.raises(PeerError, match=r"broker ended with status 3.*no such option"):
        processes.wait_open(free_ports(1), 30)
    processes.stop()


@pytest.mark.real
def test_the_command_names_the_peers_that_there_are() -> None:
    told = subprocess.run(
        [sys.executable, "-m", "bench.run_peers", "--peers", "zeromq"], capture_output=True, text=True, check=False
    )
    assert told.returncode == 2
    for name in ("nats", "kafka", "rocketmq", "rabbitmq", "etcd"):
        assert name in told.stderr
