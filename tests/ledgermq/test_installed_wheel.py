"""Tests the installed wheel: its contents, the types that a user's program sees, and the error if another package hides
one of ours.
"""

from __future__ import annotations

import subprocess
import sys
import venv
import zipfile
from pathlib import Path
from typing import NamedTuple

import pytest
from hatchling.builders.wheel import WheelBuilder

from ledger.version import VERSION
from ledgermq._neighbours import NEIGHBOURS
from tests.cluster.ports import free_base_port

pytestmark = pytest.mark.real

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ("ledgermq", *NEIGHBOURS, "pyspark_ledgermq", "pyspark_ledgermq_log", "pytest_ledgermq")


class Installation(NamedTuple):
    wheel: Path
    # The environment's site-packages.
    packages: Path
    python: Path
    script: Path


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Installation:
    """An environment that contains the wheel and nothing else."""
    folder = tmp_path_factory.mktemp("installed")
    (wheel,) = WheelBuilder(str(ROOT)).build(directory=str(folder), versions=["standard"])
    environment = folder / "environment"
    venv.create(environment, symlinks=True)
    python = environment / "bin/python"
    pip = (sys.executable, "-m", "pip", "--disable-pip-version-check", "--python", str(python))
    finished = run(*pip, "install", "--quiet", "--no-index", "--no-deps", wheel, folder=folder)
    assert finished.returncode == 0, finished.stderr
    (packages,) = environment.glob("lib/python*/site-packages")
    return Installation(Path(wheel), packages, python, environment / "bin/ledgermq")


@pytest.fixture(scope="module")
def complete(installed: Installation) -> Installation:
    """The same environment, which now sees the libraries that the tests run with."""
    libraries = [path for path in sys.path if path.endswith("-packages")]
    (installed.packages / "libraries.pth").write_text("\n".join(libraries) + "\n")
    return installed


PROGRAM = """
from ledgermq import AsyncConsumer, Message, Producer, RecordMetadata, __version__
from ledgermq.errors import LedgerError


def send() -> RecordMetadata | None:
    with Producer("127.0.0.1:9871") as producer:
        try:
            receipt = producer.send("orders", b"...", key="customer 7")
        except LedgerError as error:
            reveal_type(error.retriable)
            return None
        reveal_type(receipt.offset)
        return receipt


async def read() -> list[Message]:
    async with AsyncConsumer("orders", bootstrap_servers="127.0.0.1:9871") as consumer:
        reveal_type(consumer)
        async for message in consumer:
            reveal_type(message.value)
    return []


reveal_type(__version__)
"""


def test_a_strict_type_checker_sees_the_types(installed: Installation, tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(PROGRAM)
    mypy = (sys.executable, "-m", "mypy", "--strict", "--python-executable", str(installed.python))
    finished = run(*mypy, "--cache-dir", str(tmp_path / "cache"), "program.py", folder=tmp_path)
    revealed = [line.split('"')[1] for line in finished.stdout.splitlines() if "Revealed type" in line]
    consumer = "ledger.client.consumer.consumer.AsyncConsumer[bytes]"
    assert revealed == ["bool", "int", consumer, "bytes", "str"], finished.stdout
    assert finished.stdout.splitlines()[-1] == "Success: no issues found in 1 source file"


TESTS = """
from ledgermq.embedded import EmbeddedNode
from ledgermq.testing import Cluster, cluster_fixture

ledgermq_cluster = cluster_fixture(nodes=3, scope="module", settings={"retry_delays_s": [0.1], "flush": "sync"})


def test_orders(ledgermq_cluster: Cluster, ledgermq_topic: str) -> None:
    reveal_type(ledgermq_cluster.kill_leader())
    ledgermq_cluster.partition([1], {2, 3})
    reveal_type(ledgermq_cluster.aio.heal)


async def main() -> None:
    async with Cluster(nodes=3) as cluster, EmbeddedNode("data", flush="async") as node:
        reveal_type(await cluster.create_topic())
        reveal_type(node.bootstrap)
"""


def test_a_strict_type_checker_sees_the_types_for_tests(installed: Installation, tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(TESTS)
    mypy = (sys.executable, "-m", "mypy", "--strict", "--python-executable", str(installed.python))
    finished = run(*mypy, "--cache-dir", str(tmp_path / "cache"), "program.py", folder=tmp_path)
    revealed = [line.split('"')[1] for line in finished.stdout.splitlines() if "Revealed type" in line]
    assert revealed == ["int", "def () -> typing.Coroutine[Any, Any, None]", "str", "str"], finished.stdout
    assert finished.stdout.splitlines()[-1] == "Success: no issues found in 1 source file"


def test_a_strict_type_checker_refuses_a_wrong_call(installed: Installation, tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text('from ledgermq import Producer\n\nProducer("host:1").send("orders", 7)\n')
    mypy = (sys.executable, "-m", "mypy", "--strict", "--python-executable", str(installed.python))
    finished = run(*mypy, "--cache-dir", str(tmp_path / "cache"), "program.py", folder=tmp_path)
    assert 'incompatible type "int"; expected "bytes | bytearray | memoryview' in finished.stdout


def test_the_wheel_contains_every_package(installed: Installation) -> None:
    with zipfile.ZipFile(installed.wheel) as wheel:
        names = set(wheel.namelist())
    assert {f"{package}/py.typed" for package in PACKAGES} <= names
    assert {name.split("/")[0] for name in names} == {*PACKAGES, f"ledgermq-{VERSION}.dist-info"}
    for package in PACKAGES:
        here = {str(path.relative_to(ROOT)) for path in (ROOT / package).rglob("*.py")}
        assert here <= names


def test_the_console_script_and_the_module_run(complete: Installation, tmp_path: Path) -> None:
    for command in ((str(complete.script),), (str(complete.python), "-m", "ledgermq")):
        finished = run(*command, "--version", folder=tmp_path)
        assert (finished.returncode, finished.stdout) == (0, f"ledgermq {VERSION}\n"), finished.stderr


def test_a_hidden_package_is_named(complete: Installation, tmp_path: Path) -> None:
    """A package of the same name in the working directory hides ours, because `python -c` and `python -m` look there
    first. The error names the hidden package.
    """
    for name in ("store", "ledger"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").write_text("")
    for program in ("import ledgermq", "from ledgermq import Producer"):
        finished = run(str(complete.python), "-c", program, folder=tmp_path)
        assert finished.returncode == 1
        assert finished.stderr.splitlines()[-1] == f"ImportError: {sentence(complete, 'store', tmp_path / 'store')}"
    finished = run(str(complete.python), "-m", "ledgermq", "--version", folder=tmp_path)
    assert finished.returncode == 1
    assert finished.stderr == f"Error: {sentence(complete, 'store', tmp_path / 'store')}\n"
    (tmp_path / "store/__init__.py").unlink()
    (tmp_path / "store").rmdir()
    finished = run(str(complete.python), "-c", "import ledgermq", folder=tmp_path)
    assert finished.stderr.splitlines()[-1] == f"ImportError: {sentence(complete, 'ledger', tmp_path / 'ledger')}"


def test_the_console_script_does_not_look_into_the_working_directory(complete: Installation, tmp_path: Path) -> None:
    (tmp_path / "store").mkdir()
    (tmp_path / "store/__init__.py").write_text("")
    finished = run(str(complete.script), "--version", folder=tmp_path)
    assert finished.returncode == 0, finished.stderr
    finished = run(str(complete.script), "--version", folder=tmp_path, environment={"PYTHONPATH": str(tmp_path)})
    assert (finished.returncode, finished.stdout) == (1, "")
    assert finished.stderr == f"Error: {sentence(complete, 'store', tmp_path / 'store')}\n"


def test_a_node_of_dev_start_names_the_hidden_package(complete: Installation, tmp_path: Path) -> None:
    """A node started by `ledgermq dev start` also names a hidden package. `python -m` looks first in the node's working
    directory, which is the node's own folder.
    """
    dev, data = (str(complete.script), "dev"), ("--data", str(tmp_path / "cluster"))
    assert (
        run(*dev, "start", *data, "--nodes", "1", "--base-port", str(free_base_port(1)), folder=tmp_path).returncode
        == 0
    )
    assert run(*dev, "stop", *data, folder=tmp_path).returncode == 0
    hiding = tmp_path / "cluster/node-1/store"
    hiding.mkdir()
    (hiding / "__init__.py").write_text("")
    finished = run(*dev, "start", *data, folder=tmp_path)
    assert finished.returncode == 1
    assert f"Error: {sentence(complete, 'store', hiding)}" in finished.stderr
    assert "Traceback" not in finished.stderr


def test_a_module_hides_a_package_and_a_plain_folder_does_not(complete: Installation, tmp_path: Path) -> None:
    (tmp_path / "chaos").mkdir()
    assert run(str(complete.python), "-c", "import ledgermq", folder=tmp_path).returncode == 0
    (tmp_path / "raft.py").write_text("")
    finished = run(str(complete.python), "-c", "import ledgermq", folder=tmp_path)
    assert finished.stderr.splitlines()[-1] == f"ImportError: {sentence(complete, 'raft', tmp_path / 'raft.py')}"


def test_a_source_tree_needs_no_installation(complete: Installation, tmp_path: Path) -> None:
    """The program runs from a source tree. The folder of the sources comes before the installed packages on the path,
    as in an editable installation.
    """
    program = "import ledgermq; print(ledgermq.__file__, ledgermq.__version__, ledgermq.Producer.__module__)"
    finished = run(str(complete.python), "-c", program, folder=tmp_path, environment={"PYTHONPATH": str(ROOT)})
    expected = f"{ROOT / 'ledgermq/__init__.py'} {VERSION} ledger.client.sync.clients\n"
    assert (finished.stdout, finished.returncode) == (expected, 0), finished.stderr


def sentence(complete: Installation, name: str, found: Path) -> str:
    return (
        f"{found} hides the package {name} of ledgermq at {complete.packages / name}: "
        f"rename or move {found}, or remove its folder from Python's path."
    )


def run(*command: str, folder: Path, environment: dict[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, timeout=100, check=False
    )
