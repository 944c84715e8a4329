"""Tests a program that has used a client, and then starts other programs by fork and exec, as Spark starts Java."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from cluster.local.processes import DevCluster
from tests.cluster.ports import free_base_port

PROGRAM = """
import subprocess, sys
from ledgermq import Admin, Producer

with Admin(sys.argv[1]) as admin, Producer(sys.argv[1]) as producer:
    admin.create_topic("greetings", 1)
    for _ in range(20):
        receipt = producer.send_nowait("greetings", b"hello")  # gRPC is busy meanwhile
        subprocess.run(["true"], preexec_fn=lambda: None, check=True)
    producer.flush()
"""


def test_children_that_become_other_programs_do_not_meet_grpc(tmp_path: Path) -> None:
    cluster = DevCluster(tmp_path)
    cluster.start(1, base_port=free_base_port(1))
    environment = {name: value for name, value in os.environ.items() if name != "GRPC_ENABLE_FORK_SUPPORT"}
    try:
        ended = subprocess.run(
            [sys.executable, "-c", PROGRAM, cluster.bootstrap], env=environment, capture_output=True, text=True
        )
    finally:
        cluster.purge()
    assert (ended.returncode, ended.stderr) == (0, "")


FORKING = """
import multiprocessing, sys
from ledgermq import Admin, LedgerError

def topics(_):
    try:
        with Admin(sys.argv[1]) as admin:
            return admin.list_topics()
    except LedgerError as error:
        return f"{type(error).__name__}: {error}"

if __name__ == "__main__":
    if sys.argv[2] == "before":
        with Admin(sys.argv[1]) as admin:
            admin.list_topics()
    with multiprocessing.get_context("fork").Pool(1) as pool:
        print(pool.map(topics, [1])[0])
"""


@pytest.mark.parametrize("client", ["before", "after"])
def test_a_client_of_a_forked_process_is_refused_if_the_process_had_one_before(tmp_path: Path, client: str) -> None:
    cluster = DevCluster(tmp_path)
    cluster.start(1, base_port=free_base_port(1))
    try:
        ended = subprocess.run(
            [sys.executable, "-c", FORKING, cluster.bootstrap, client], capture_output=True, text=True, timeout=60
        )
    finally:
        cluster.purge()
    assert ended.returncode == 0, ended.stderr
    if client == "before":
        assert ended.stdout.startswith("ClosedError: This process was forked from a process that had a client before")
    else:
        assert ended.stdout == "[]\n"
