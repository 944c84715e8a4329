"""Installs the programs and libraries that the peers need, below one directory. The module installs nothing into the
system's directories and starts no service.

    build/peers/debian/PACKAGE/    the package and its missing dependencies, unpacked; their scripts are not run
    build/peers/java/NAME/         jars, resolved by Maven from poms/NAME.xml
    build/peers/venv/              the Python clients, from requirements.txt

A stamp file beside each installed directory shows that the directory is complete, so the next run does not install it
again. `make clean` removes all installed files. The package managers (apt, Maven, pip) run with the configuration of
this machine.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from bench.peers.peer import PeerUnavailableError

REPOSITORY = Path(__file__).resolve().parents[2]
_HERE = Path(__file__).resolve().parent
_TIMEOUT_S = 900.0
_MAVEN = ("mvn", "--batch-mode", "--quiet")
_COPY_JARS = "org.apache.maven.plugins:maven-dependency-plugin:3.6.1:copy-dependencies"
_SYSTEM_PATHS = ("/usr/sbin", "/usr/bin", "/sbin", "/bin")


class Installed:
    """Installs each program or library when it is first needed. The methods of this module raise
    PeerUnavailableError if an installation fails."""

    def __init__(self, directory: Path = REPOSITORY / "build" / "peers", say: Callable[[str], None] = print) -> None:
        """`say` is called with a sentence before each step that takes long."""
        self._directory, self._say = directory, say

    def debian(self, package: str) -> Path:
        """Return the directory that contains the files of the Debian package, with the same paths as below the root
        directory."""
        root = self._directory / "debian" / package
        if not _stamp(root).exists():
            self._say(f"unpacking Debian's {package} into {root}")
            _fresh(root)
            for archive in _download(package, root):
                _run(["dpkg-deb", "--extract", str(archive), str(root)], f"unpack {archive.name}")
                archive.unlink()
            _stamp(root).touch()
        return root

    def program(self, package: str, name: str) -> Path:
        """Return the path of a program of a Debian package, or of the system's own program if the package is
        installed on the system."""
        root = self.debian(package)
        found = shutil.which(name, path=os.pathsep.join(f"{root}{path}" for path in _SYSTEM_PATHS)) or shutil.which(
            name
        )
        if found is None:
            raise PeerUnavailableError(
                f"Debian's {package} has no program {name}: this Debian release may be unsupported"
            )
        return Path(found)

    def jars(self, name: str) -> Path:
        """Return the directory with the jars that poms/NAME.xml names."""
        pom = _HERE / "poms" / f"{name}.xml"
        directory = self._directory / "java" / name
        stamp = _stamp(directory, pom)
        for program in ("java", "mvn"):
            if shutil.which(program) is None:
                raise PeerUnavailableError(f"{program} is not installed: install default-jre-headless and maven")
        if not stamp.exists():
            self._say(f"resolving the jars of {name} into {directory}")
            _fresh(directory)
            _run(
                [*_MAVEN, "--file", str(pom), _COPY_JARS, "-DincludeScope=runtime", f"-DoutputDirectory={directory}"],
                f"resolve the jars of {name}",
            )
            stamp.touch()
        return directory

    def python(self) -> Path:
        """Return the Python interpreter of the environment with the peers' clients."""
        pins = _HERE / "requirements.txt"
        venv = self._directory / "venv"
        stamp = _stamp(venv, pins)
        python = venv / "bin" / "python"
        if not stamp.exists():
            self._say(f"installing the peers' Python clients into {venv}")
            _fresh(venv)
            _run([sys.executable, "-m", "venv", str(venv)], f"make {venv}")
            _run(
                [str(python), "-m", "pip", "install", "--quiet", "--require-hashes", "-r", str(pins)],
                "install the peers' Python clients",
            )
            stamp.touch()
        return python


def needed(simulation: str) -> list[str]:
    """Return the names of the packages that apt would install, taken from a simulated installation."""
    return [words[1] for line in simulation.splitlines() if len(words := line.split()) > 1 and words[0] == "Inst"]


def _download(package: str, directory: Path) -> list[Path]:
    """Download the package and its missing dependencies. Return the paths of the archives; the list is empty if the
    system already has the package."""
    for program in ("apt-get", "dpkg-deb"):
        if shutil.which(program) is None:
            raise PeerUnavailableError(
                f"{program} is not installed, and {package} is a Debian package: use a Debian system"
            )
    simulate = ["apt-get", "install", "--simulate", "--no-install-recommends", package]
    try:
        told = _run(simulate, f"find {package}")
    except PeerUnavailableError:
        _run(["apt-get", "update"], f"find {package}: apt's lists are missing or old, and `apt-get update`")
        told = _run(simulate, f"find {package}")
    if names := needed(told):
        _run(["apt-get", "download", *names], f"download {package}", directory)
    return sorted(directory.glob("*.deb"))


def _stamp(directory: Path, made_from: Path | None = None) -> Path:
    """Return the path of the stamp file of `directory`. The stamp file exists if `directory` is complete and was
    made from the present content of `made_from`."""
    content = hashlib.sha256(made_from.read_bytes()).hexdigest()[:12] if made_from else "complete"
    return directory.with_name(f"{directory.name}.{content}")


def _fresh(directory: Path) -> None:
    shutil.rmtree(directory, ignore_errors=True)
    directory.mkdir(parents=True)


def _run(command: Sequence[str], purpose: str, directory: Path | None = None) -> str:
    """Run the command and return its output. If the command fails, raise PeerUnavailableError with an error line of
    its output."""
    environment = os.environ | {"LC_ALL": "C", "DEBIAN_FRONTEND": "noninteractive"}
    try:
        done = subprocess.run(
            command, cwd=directory, env=environment, capture_output=True, text=True, timeout=_TIMEOUT_S, check=False
        )
    except subprocess.TimeoutExpired as error:
        raise PeerUnavailableError(f"cannot {purpose}: `{command[0]}` took longer than {_TIMEOUT_S:g} s") from error
    if done.returncode:
        lines = (done.stderr.strip() or done.stdout.strip()).splitlines()
        said = next((line for line in lines if "error" in line.lower() or line.startswith("E:")), *lines[-1:])
        raise PeerUnavailableError(f"cannot {purpose}: {said[:300]}")
    return done.stdout
