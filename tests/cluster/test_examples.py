"""Runs every script of examples/ unchanged, against a local cluster as `ledgermq dev start` makes it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from cluster.local.processes import DevCluster
from tests.cluster.ports import free_base_port

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
SCRIPTS = sorted(path for path in EXAMPLES.glob("*.py") if not path.name.startswith("test_"))
SUITES = sorted(EXAMPLES.glob("test_*.py"))
# For one script. Scripts with Spark take 20 s, and much longer on a busy machine.
SECONDS = 240
# Java compiles quickly and not well: a script that runs once takes half of the processor time.
QUICK_JAVA = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"

pytestmark = pytest.mark.timeout(SECONDS + 60)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DevCluster]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("LEDGERMQ_RETRY_DELAYS_S", "0.5")
        cluster = DevCluster(tmp_path_factory.mktemp("examples"))
        cluster.start(3, base_port=free_base_port(3))
        yield cluster
        cluster.purge()


@pytest.mark.real
@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.stem)
def test_an_example_runs_and_says_what_it_shows(cluster: DevCluster, script: Path) -> None:
    done = subprocess.run(
        [sys.executable, str(script)],
        env={**os.environ, "LEDGERMQ_BOOTSTRAP": cluster.bootstrap, "JAVA_TOOL_OPTIONS": QUICK_JAVA},
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip()


@pytest.mark.real
@pytest.mark.parametrize("suite", SUITES, ids=lambda path: path.stem)
def test_a_suite_of_the_examples_passes(suite: Path, tmp_path: Path) -> None:
    """The suite runs beside the program that it tests, as in the directory of a user."""
    for path in (suite, suite.with_name(suite.name.removeprefix("test_"))):
        shutil.copy(path, tmp_path)
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "pytest_ledgermq", "-p", "no:cacheprovider", suite.name],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stdout


def test_the_list_of_examples_is_complete() -> None:
    listed = (EXAMPLES / "README.md").read_text()
    assert SCRIPTS
    assert SUITES
    assert all(f"[{script.name}]" in listed for script in [*SCRIPTS, *SUITES])
