"""One client process of a chaos run."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from chaos.live.load.spec import ClientSpec

pytestmark = pytest.mark.real


def test_a_client_whose_run_was_gone_before_it_could_look_does_not_stay(tmp_path: Path) -> None:
    spec = ClientSpec(
        role="producers",
        first_process=0,
        bootstrap=("127.0.0.1:1",),
        nodes=(0,),
        topics=("t",),
        queues=1,
        rate=1.0,
        largest_bytes=1,
        delivery_timeout_ms=60_000,
        seed=1,
        history=str(tmp_path / "history.jsonl"),
        run=os.getpid() + 1,  # not who starts it, as where that one has died
    )
    spec.save(tmp_path / "spec.json")
    command = [sys.executable, "-m", "chaos.live.load.client", str(tmp_path / "spec.json")]
    assert subprocess.run(command, timeout=30, check=False).returncode == 1
