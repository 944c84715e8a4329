"""A client loads few modules, and says what to install if a library is missing."""

from __future__ import annotations

import re
import subprocess
import sys
from importlib.metadata import requires

import pytest

from ledger.access.password import make_verifier
from ledger.client.connection.session import ProofTools, _prove_password
from ledger.codec import Codec, decompress
from ledger.errors import AuthenticationError, InvalidArgumentError, UnsupportedBatchError
from ledgermq.__main__ import COMMAND_LINE_LIBRARIES

pytestmark = pytest.mark.real

# What a client may load of other distributions. Loading takes most of the time of a client's start. gRPC loads
# grpc_tools if it is installed, as for these tests.
LIBRARIES = {"numpy", "grpc", "google", "google_crc32c", "xxhash", "typing_extensions", "grpc_tools"}

# Parts of ledgermq that a producer does not need.
OURS = (
    "raft",
    "store",
    "cluster",
    "chaos",
    "ledger.broker",
    "ledger.validation",
    "ledger.spark",
    "ledger.client.group",
)

LOADED = """
import sys
from ledgermq import {name}
for name, module in list(sys.modules.items()):
    path = getattr(module, "__file__", None) or ""
    if "site-packages" in path or name.split(".")[0] in {ours}:
        print(name)
"""


def loaded(name: str) -> list[str]:
    program = LOADED.format(name=name, ours=("ledger", "ledgermq", "raft", "store", "cluster", "chaos"))
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True)
    return done.stdout.split()


@pytest.mark.parametrize("name", ["Producer", "AsyncProducer", "Consumer", "AsyncConsumer"])
def test_a_client_loads_few_modules(name: str) -> None:
    modules = loaded(name)
    # Files whose names begin with __ belong to the environment, such as the finder of an editable installation.
    others = {one.split(".")[0] for one in modules if not one.startswith(("ledger", "_"))}
    assert others <= LIBRARIES
    assert [one for one in modules if one.startswith(OURS)] == []
    assert "ledger.access.mechanism" not in modules
    assert len([one for one in modules if one.startswith("ledger")]) < 130


def test_the_requirements_of_a_client_are_few() -> None:
    base = {re.split("[<>]", one)[0] for one in requires("ledgermq") or [] if "extra ==" not in one}
    # typing-extensions comes with gRPC in any case.
    assert base == {"google-crc32c", "grpcio", "numpy", "protobuf", "typing-extensions", "xxhash"}


@pytest.mark.parametrize(("name", "library"), [("lz4", "lz4.block"), ("zstd", "zstandard")])
def test_a_missing_codec_is_named(name: str, library: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, library, None)
    advice = r"pip install 'ledgermq\[compression\]'"
    with pytest.raises(InvalidArgumentError, match=advice):
        Codec.named(name)
    with pytest.raises(UnsupportedBatchError, match=advice):
        decompress(Codec[name.upper()], b"", 0)


def test_a_password_without_its_library_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "ledger.access.mechanism", raising=False)
    monkeypatch.setitem(sys.modules, "scramp", None)
    with pytest.raises(InvalidArgumentError, match=r"pip install 'ledgermq\[password\]'"):
        make_verifier("long enough")


async def test_a_client_with_a_password_names_the_library(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "scramp", None)
    with pytest.raises(AuthenticationError, match=r"pip install 'ledgermq\[password\]'"):
        await _prove_password(None, "anna", "secret", ProofTools())


@pytest.mark.parametrize("library", COMMAND_LINE_LIBRARIES)
def test_a_command_line_without_its_extra_says_what_to_install(library: str) -> None:
    program = f"import sys; sys.modules[{library!r}] = None; sys.argv[1:] = ['topic', 'list']\n"
    program += "from ledgermq.__main__ import main\nmain()"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 1
    assert f"needs the package {library}" in done.stderr
    assert "pip install 'ledgermq[cli]'" in done.stderr
    assert "Traceback" not in done.stderr
