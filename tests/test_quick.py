"""The quick run refuses what it promises to refuse, and finds its folders."""

from __future__ import annotations

import socket
import subprocess
import sys

import grpc
import pytest

from tests.quick import REAL_FOLDERS, ROOT, NotQuickError


@pytest.mark.parametrize("folder", REAL_FOLDERS)
def test_every_folder_is_there(folder: str) -> None:
    assert (ROOT / folder).is_dir()


@pytest.fixture
def quick(pytestconfig: pytest.Config) -> None:
    if not pytestconfig.getoption("--quick"):
        pytest.skip("only in a quick run")


@pytest.mark.usefixtures("quick")
def test_sockets_are_refused() -> None:
    with socket.socket() as each, pytest.raises(NotQuickError):
        each.bind(("127.0.0.1", 0))
    with socket.socket() as each, pytest.raises(NotQuickError):
        each.connect(("127.0.0.1", 1))
    with pytest.raises(NotQuickError):
        grpc.insecure_channel("127.0.0.1:1")
    with pytest.raises(NotQuickError):
        grpc.aio.server()


@pytest.mark.usefixtures("quick")
def test_processes_are_refused() -> None:
    with pytest.raises(NotQuickError):
        subprocess.run([sys.executable, "-c", ""], check=False)
