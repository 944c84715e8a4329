"""Tests `import ledgermq`: its public names, and that it needs only the base dependencies and our own packages."""

from __future__ import annotations

import ast
import importlib
import inspect
import logging
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import ledger.errors
import ledgermq
import ledgermq.errors
from ledger.version import VERSION

ROOT = Path(__file__).resolve().parents[2]


def test_every_public_name_is_there() -> None:
    for name in ledgermq.__all__:
        assert getattr(ledgermq, name) is not None
    assert sorted(ledgermq.__all__) == ledgermq.__all__
    assert set(ledgermq.__all__) <= set(dir(ledgermq))
    assert ledgermq.Producer.__name__ == "Producer"
    assert ledgermq.errors is ledgermq.errors
    with pytest.raises(AttributeError, match="module 'ledgermq' has no attribute 'Prodcer'"):
        _ = ledgermq.Prodcer


def test_type_checkers_see_the_lazy_names() -> None:
    tree = ast.parse((ROOT / "ledgermq/__init__.py").read_text(encoding="utf-8"))
    seen = {
        alias.name: statement.module
        for block in tree.body
        if isinstance(block, ast.If)
        for statement in block.body
        if isinstance(statement, ast.ImportFrom)
        for alias in statement.names
    }
    assert seen.pop("errors") == "ledgermq"
    assert seen == ledgermq._HOMES
    assert {*seen, "errors", "__version__"} == set(ledgermq.__all__)


def test_all_errors_are_public() -> None:
    ours = {
        name: each
        for name, each in vars(ledger.errors).items()
        if inspect.isclass(each) and issubclass(each, ledger.errors.LedgerError)
    }
    assert {name: getattr(ledgermq.errors, name) for name in ledgermq.errors.__all__} == ours


def test_examples_and_documents_import_public_modules_only() -> None:
    inner = re.compile(r"^\s*(?:from|import) ((?:store|raft|ledger|cluster|chaos)\b\S*)", re.MULTILINE)
    pages = [ROOT / "README.md", *ROOT.glob("docs/*.md"), *ROOT.glob("examples/*.py")]
    assert len(pages) > 20
    assert {
        page.name: inner.findall(page.read_text(encoding="utf-8")) for page in pages if inner.search(page.read_text())
    } == {}


def test_the_version_has_one_home() -> None:
    assert ledgermq.__version__ == VERSION
    project = (ROOT / "pyproject.toml").read_text()
    assert 'dynamic = ["version"]' in project
    assert 'path = "ledger/version.py"' in project


def test_a_program_that_sets_up_no_logging_still_sees_warnings() -> None:
    """The package installs no logging handler, not even a NullHandler. Therefore Python prints warnings on standard
    error."""
    assert logging.getLogger("ledgermq").handlers == []


def test_names_of_0_1_still_work() -> None:
    for names in ledger._NAMES_OF_0_1.values():
        for name in names:
            with pytest.warns(DeprecationWarning, match=f"use `from ledgermq import {name}`"):
                assert getattr(ledger, name) is getattr(ledgermq, name)
    assert importlib.import_module("ledger").errors is ledger.errors
    with pytest.raises(AttributeError, match="module 'ledger' has no attribute 'Prodcer'"):
        _ = ledger.Prodcer


BASE_ONLY = """
import os, sys

class Refuse:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in sys.argv[1].split():
            raise ModuleNotFoundError(f"no {name}", name=name)

sys.meta_path.insert(0, Refuse())
import ledgermq
assert "grpc" not in sys.modules and "ledger.client" not in sys.modules, "import ledgermq loads the clients"
assert os.environ["GRPC_ENABLE_FORK_SUPPORT"] == "0"
for name in ledgermq.__all__:
    getattr(ledgermq, name)
ours = {name.partition(".")[0] for name in sys.modules} & {"store", "raft", "cluster", "chaos"}
import ledgermq.spark, ledgermq.validation
assert set(ledgermq.spark.__all__) <= set(dir(ledgermq.spark))
assert ledgermq.validation.validate(["/nowhere"], ledgermq.validation.PlainEngine()).status == 2
try:
    ledgermq.Producer("127.0.0.1:1")
except ledgermq.errors.UnavailableError:
    pass
print(*sorted(ours))
"""


@pytest.mark.real
def test_the_clients_need_the_base_dependencies_only() -> None:
    """Runs a process in which every import of an extra or of a node's dependency fails. All public names must load,
    without the packages store, raft, cluster and chaos. A validation must run, and a producer must start.
    """
    extras = (
        "aiohttp prometheus_client pydantic_settings pydantic structlog uvloop pyspark pyarrow pandas jinja2 matplotlib"
    )
    environment = {name: value for name, value in os.environ.items() if name != "GRPC_ENABLE_FORK_SUPPORT"}
    finished = run(sys.executable, "-c", BASE_ONLY, f"{extras} docker hdrh", folder=ROOT, environment=environment)
    assert (finished.returncode, finished.stdout.strip()) == (0, ""), finished.stderr


def run(*command: str, folder: Path, environment: dict[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=60, check=False)
