"""Makes the data directories that earlier programs wrote.

    python -m tests.golden.make 3              level-3.tar.xz, with the program that PROGRAMS names
    python -m tests.golden.make 6 COMMIT       the same for a new level: add the commit to PROGRAMS then

The directory of a level is made once, by the last program whose latest level it was, and never again.
"""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import tarfile
import tempfile
import time
import urllib.request
from pathlib import Path
from typing import Any

from tests.cluster.ports import free_base_port
from tests.golden.program import ROOT, Program, unpack

HERE = Path(__file__).resolve().parent
# By feature level: the last commit whose program knows this level and no higher one.
PROGRAMS = {
    0: "c843ed22",
    1: "673f227c",
    2: "1e7763d5",
    3: "4933ed4a",
    4: "a6e42ffb",
    5: "716e77cf",
}
CLUSTER = "golden"
SETTINGS: dict[str, Any] = {"cluster": CLUSTER, "segment_bytes": 1_179_648, "max_message_bytes": 65_536}
# From this level on, the state has users.
_USERS = 2
_PASSWORD = "the password of the golden administrator"


def make(level: int, commit: str) -> Path:
    """Run the program of the commit, let it write its data directory, and pack this directory. Return the archive."""
    with tempfile.TemporaryDirectory(prefix="ledgermq-golden-") as name:
        directory = Path(name)
        program = unpack(commit, directory / "program")
        assert program.latest_level == level, f"{commit} knows level {program.latest_level}, not {level}"
        (directory / "content.json").write_text(_written(program, level, directory))
        return _packed(directory, HERE / f"level-{level}.tar.xz")


def _written(program: Program, level: int, directory: Path) -> str:
    """Start a node, write into it, stop it in order, and return what the old program's consumers read."""
    port = free_base_port(1)
    address = f"127.0.0.1:{port}"
    environment = {
        "LEDGERMQ_NODE": "1",
        "LEDGERMQ_DATA": str(directory / "node-1"),
        "LEDGERMQ_PEERS": f"1={address}",
        "LEDGERMQ_LISTEN": address,
        "LEDGERMQ_HTTP": f"127.0.0.1:{port + 1}",
        **{f"LEDGERMQ_{key.upper()}": str(value) for key, value in SETTINGS.items()},
    }
    arguments = [str(HERE / "content.py"), address, str(level)]
    if level >= _USERS:
        password = directory / "password"
        password.write_text(_PASSWORD)
        secret = directory / "cluster.secret"
        subprocess.run(
            [sys.executable, "-m", "ledgermq", "cluster", "init", "--out", str(secret)], check=True, cwd=ROOT
        )
        environment |= {
            "LEDGERMQ_AUTHENTICATION": "true",
            "LEDGERMQ_CLUSTER_SECRET_FILE": str(secret),
            "LEDGERMQ_FIRST_ADMINISTRATOR_PASSWORD_FILE": str(password),
        }
        password.chmod(0o600)
        arguments.append(str(password))
    with open(directory / "node.log", "wb") as log:
        node = program.start(["-m", "ledgermq", "server", "run"], environment, log)
    try:
        _wait(f"http://127.0.0.1:{port + 1}/readyz", directory / "node.log")
        client = program.start(arguments, {}, subprocess.PIPE)
        told, _ = client.communicate(timeout=60)
        assert client.returncode == 0, told.decode()
        return json.dumps(json.loads(told), indent=1) + "\n"
    finally:
        node.send_signal(signal.SIGTERM)
        assert node.wait(30) == 0, (directory / "node.log").read_text()


def _wait(url: str, log: Path) -> None:
    deadline = time.monotonic() + 30
    while True:
        try:
            with urllib.request.urlopen(url, timeout=2):
                return
        except OSError as error:
            if time.monotonic() > deadline:
                raise TimeoutError(f"{url}\n{log.read_text()}") from error
            time.sleep(0.1)


def _packed(directory: Path, archive: Path) -> Path:
    """Pack the data of the node and its content. The names of this machine and its user do not get into the archive."""

    def anonymous(member: tarfile.TarInfo) -> tarfile.TarInfo | None:
        if member.name.endswith((".sock", "/lock")) or "/reserve" in member.name:
            return None
        member.uid = member.gid = member.mtime = 0
        member.uname = member.gname = ""
        return member

    with tarfile.open(archive, "w:xz") as packed:
        for part in ("content.json", "node-1"):
            packed.add(directory / part, part, filter=anonymous)
    return archive


if __name__ == "__main__":
    _level = int(sys.argv[1])
    _made = make(_level, sys.argv[2] if len(sys.argv) > 2 else PROGRAMS[_level])
    print(f"{_made}: {_made.stat().st_size} bytes")
