"""`make dist`: the wheel and the source distribution have what a user needs, and no more."""

from __future__ import annotations

import subprocess
import sys
import tarfile
import venv
import zipfile
from pathlib import Path
from typing import NamedTuple

import pytest

from ledger.version import VERSION
from ledgermq._neighbours import NEIGHBOURS

pytestmark = pytest.mark.real

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = {"ledgermq", *NEIGHBOURS, "pyspark_ledgermq", "pyspark_ledgermq_log", "pytest_ledgermq"}
BESIDE = {"proto", "CHANGELOG.md", "LICENSE", "README.md", "pyproject.toml", "PKG-INFO", ".gitignore"}


class Distributions(NamedTuple):
    wheel: Path
    source: Path


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Distributions:
    """What the command of `make dist` makes."""
    folder = tmp_path_factory.mktemp("dist")
    assert "$(BIN)/python -m hatchling build --directory dist" in (ROOT / "Makefile").read_text()
    run(sys.executable, "-m", "hatchling", "build", "--directory", folder, folder=ROOT)
    assert sorted(path.name for path in folder.iterdir()) == [
        f"ledgermq-{VERSION}-py3-none-any.whl",
        f"ledgermq-{VERSION}.tar.gz",
    ]
    return Distributions(next(folder.glob("*.whl")), next(folder.glob("*.tar.gz")))


def run(*command: object, folder: Path) -> str:
    done = subprocess.run(list(map(str, command)), cwd=folder, capture_output=True, text=True, timeout=100, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def names_of_wheel(wheel: Path) -> list[str]:
    with zipfile.ZipFile(wheel) as archive:
        return sorted(archive.namelist())


def names_of_source(source: Path) -> list[str]:
    with tarfile.open(source) as archive:
        return sorted(one.name.split("/", 1)[1] for one in archive.getmembers() if one.isfile())


def test_the_distributions_have_code_and_licence_and_no_tests(made: Distributions) -> None:
    wheel, source = names_of_wheel(made.wheel), names_of_source(made.source)
    for names in (wheel, source):
        assert not [name for name in names if name.endswith(".pyc") or "tests" in name.split("/")]
        assert [name for name in names if name.endswith("LICENSE")]
        assert "ledgermq/py.typed" in names
    info = f"ledgermq-{VERSION}.dist-info"
    assert {name.split("/")[0] for name in wheel} == {*PACKAGES, info}
    assert {name.split("/")[0] for name in source} == PACKAGES | BESIDE
    assert made.source.stat().st_size < 5_000_000


def test_the_metadata_name_the_pythons_and_extras(made: Distributions) -> None:
    with zipfile.ZipFile(made.wheel) as archive:
        metadata = archive.read(f"ledgermq-{VERSION}.dist-info/METADATA").decode()
    assert "Requires-Python: >=3.11" in metadata
    for python in ("3.11", "3.12", "3.13", "3.14"):
        assert f"Classifier: Programming Language :: Python :: {python}" in metadata
    for extra in ("cli", "compression", "password", "certificates", "server"):
        assert f"Provides-Extra: {extra}" in metadata


def test_the_source_distribution_builds_the_same_wheel_which_installs(made: Distributions, tmp_path: Path) -> None:
    with tarfile.open(made.source) as archive:
        archive.extractall(tmp_path, filter="data")
    unpacked = tmp_path / f"ledgermq-{VERSION}"
    run(sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", tmp_path, folder=unpacked)
    wheel = tmp_path / made.wheel.name
    assert names_of_wheel(wheel) == names_of_wheel(made.wheel)

    environment = tmp_path / "environment"
    venv.create(environment, symlinks=True)
    python = environment / "bin/python"
    pip = (sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet", "--python", python)
    run(*pip, "install", "--no-index", "--no-deps", wheel, folder=tmp_path)
    told = run(python, "-c", "import ledgermq; print(ledgermq.__version__, ledgermq.__file__)", folder=tmp_path)
    assert told.split()[0] == VERSION
    assert str(environment) in told
