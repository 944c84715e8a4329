"""Tests a program that has used a client, and then starts other programs by fork and exec, as Spark starts Java."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

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
