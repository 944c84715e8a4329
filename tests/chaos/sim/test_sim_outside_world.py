"""While a simulated run lasts, project code that uses the real world gets an error, and the run fails."""

from __future__ import annotations

import logging
import os
import random
import sys
import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime
from types import ModuleType
from typing import Any

import pytest

from chaos.sim.campaign.run import run
from chaos.sim.campaign.swarm import Wishes
from chaos.sim.engine.outside_world import OutsideWorld, OutsideWorldError
from raft.core import Raft

OF_PRODUCT = ".".join(("ledger", "planted_by_a_test"))


def planted(code: str, name: str = OF_PRODUCT, **known: object) -> ModuleType:
    """Return a module with this name that has run the code."""
    module = ModuleType(name)
    vars(module).update(known)
    exec(code, vars(module))
    return module


@pytest.mark.parametrize(
    ("code", "told"),
    [
        ("import time\ndef act(): time.time()", "time.time"),
        ("import time\ndef act(): time.perf_counter_ns()", "time.perf_counter_ns"),
        ("import time\ndef act(): time.sleep(0)", "time.sleep"),
        ("from time import monotonic\ndef act(): monotonic()", "time.monotonic"),
        ("import time\ndef act(clock=time.monotonic): clock()", "time.monotonic"),
        ("import time\ndef act(*, clock=time.monotonic): clock()", "time.monotonic"),
        ("import time\nclass A:\n  def f(self, clock=time.monotonic): clock()\ndef act(): A().f()", "time.monotonic"),
        ("from datetime import UTC, datetime\ndef act(): datetime.now(UTC)", "datetime.datetime.now"),
        ("import random\ndef act(): random.random()", "random.random"),
        ("import random\ndef act(): random.Random()", "random.Random() without a seed"),
        ("import random\ndef act(): random.SystemRandom().random()", "random._urandom"),
        ("import os\ndef act(): os.urandom(8)", "os.urandom"),
        ("import secrets\ndef act(): secrets.token_hex(8)", "secrets.token_hex"),
        ("from uuid import uuid4\ndef act(): uuid4()", "uuid.uuid4"),
        ("import os\ndef act(): os.environ.get('HOME')", "os.environ"),
        ("import os\ndef act(environment=os.environ): [*environment]", "os.environ"),
        ("import threading\ndef act(): threading.Thread(target=print).start()", "threading.Thread.start"),
        ("import subprocess\ndef act(): subprocess.run(['true'])", "subprocess.Popen"),
        ("import socket\ndef act(): socket.socket()", "socket.socket"),
        pytest.param(
            "import grpc.aio\ndef act(): grpc.aio.insecure_channel('localhost:1')",
            "grpc.aio.Channel",
            marks=pytest.mark.real,  # `--quick` refuses it first
        ),
    ],
)
def test_a_use_of_the_real_world_is_refused_and_named(code: str, told: str, monkeypatch: pytest.MonkeyPatch) -> None:
    module = planted(code)
    monkeypatch.setitem(sys.modules, OF_PRODUCT, module)
    with OutsideWorld() as outside:
        with pytest.raises(OutsideWorldError, match=rf"{OF_PRODUCT}, line \d+, called ") as refused:
            module.act()
        assert f"called {told} in a simulated run" in str(refused.value)
        assert outside.used == [str(refused.value)]


def test_what_changes_nothing_in_a_run_is_allowed() -> None:
    code = """
import logging, random, time
from datetime import UTC, datetime
from prometheus_client import CollectorRegistry, Counter
def act():
    logging.getLogger("ledgermq.planted").error("a line has the time of the machine")
    Counter("planted", "has the time at which it was made", registry=CollectorRegistry())
    assert random.Random(7).random() == random.Random(7).random()
    assert isinstance(datetime.fromtimestamp(0, UTC), datetime)
"""
    module = planted(code)
    with OutsideWorld() as outside:
        module.act()
        assert isinstance(time.monotonic(), float)  # a test is no part of the product
        thread = threading.Thread(target=lambda: None)
        thread.start()
        thread.join()
    assert outside.used == []


def test_everything_is_as_before_when_the_run_is_over(monkeypatch: pytest.MonkeyPatch) -> None:
    module = planted("import time\nfrom time import time_ns\ndef act(clock=time.monotonic): return clock()")
    monkeypatch.setitem(sys.modules, OF_PRODUCT, module)
    watched = (time.monotonic, os.urandom, random.random, threading.Thread.start, random.Random.seed)
    with OutsideWorld():
        assert module.act.__defaults__ != (watched[0],)
    assert (time.monotonic, os.urandom, random.random, threading.Thread.start, random.Random.seed) == watched
    assert (module.act.__defaults__, module.time_ns) == ((watched[0],), time.time_ns)
    assert module.act() > 0
    assert datetime.now(UTC) is not None


@pytest.mark.parametrize("reaction", ["raise", "pass"])
def test_a_run_whose_product_reads_a_clock_fails(reaction: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also if the product catches the error."""
    code = f"""
def tick(raft):
    try:
        time.monotonic()
    except BaseException:
        {reaction}
    real(raft)
"""
    tick: Callable[..., Any] = planted(code, "raft.core.raft", time=time, real=Raft.tick).tick
    assert run(1, Wishes(minutes=0.02)).passed
    monkeypatch.setattr(Raft, "tick", tick)
    report = run(1, Wishes(minutes=0.02))
    assert report.failed
    assert "raft.core.raft, line 4, called time.monotonic in a simulated run" in report.reason


def test_a_seed_that_once_depended_on_the_machine_runs(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.CRITICAL):
        assert not run(900_017, Wishes(world="stack", minutes=0.05)).failed
