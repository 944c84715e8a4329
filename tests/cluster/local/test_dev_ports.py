"""The ports of local clusters are free, also if several clusters start at once."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from cluster.local.plan import DevError
from cluster.local.ports import choose_ports, port_is_free, turn
from cluster.local.processes import DevCluster
from tests.cluster.local.at_once import assert_ports_of_their_own


@pytest.mark.real
def test_ports_in_use_are_not_chosen() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        assert not port_is_free(port)
        with pytest.raises(DevError, match=f"port {port} .* in use"):
            choose_ports(1, port)
        with pytest.raises(DevError, match="in use"):
            choose_ports(1, port - 1)  # the HTTP port
    assert port_is_free(port)


@pytest.mark.real
def test_clusters_that_are_started_at_once_get_ports_of_their_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Both prefer the same ports, and not those that a cluster of another test has, which may be starting again.
    monkeypatch.setattr("cluster.local.ports._FIRST_CHOICE", choose_ports(1, None)[0])
    assert_ports_of_their_own([DevCluster(tmp_path / name) for name in ("one", "other")])


@pytest.mark.real
def test_chosen_ports_are_pairs() -> None:
    ports = choose_ports(5, None)
    assert len({*ports, *(port + 1 for port in ports)}) == 10


def test_ports_beyond_the_last_are_refused() -> None:
    with pytest.raises(DevError, match="smaller --base-port"):
        choose_ports(3, 65_533)


def test_a_lock_that_cannot_be_opened_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "gone"))
    with pytest.raises(DevError, match=r"cannot open .*gone/ledgermq-dev-ports.* No such file"), turn():
        pass
