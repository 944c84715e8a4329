"""Runs programs of the system (ip, mount, iptables, ...) to their end."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess

from chaos.errors import ChaosError

_TIMEOUT_S = 60.0


def run(*command: str, within_s: float = _TIMEOUT_S) -> str:
    """Run the command and return its standard output. Raises ChaosError with the program's message if the command
    fails.
    """
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=within_s, check=False)
    except FileNotFoundError as error:
        raise ChaosError(f"{command[0]} is not installed") from error
    except subprocess.TimeoutExpired as error:
        raise ChaosError(f"`{shlex.join(command)}` did not end within {within_s:.0f} s") from error
    if done.returncode:
        said = (done.stderr or done.stdout).strip() or f"exit status {done.returncode}"
        raise ChaosError(f"`{shlex.join(command)}` failed: {said}")
    return done.stdout


def need_root(what: str) -> None:
    """Raise ChaosError if this process is not root."""
    if os.geteuid() != 0:
        raise ChaosError(f"{what} must be run as root, for network namespaces and disks: use sudo")


def need_programs(packages: dict[str, str]) -> None:
    """Check that the programs are installed. Raises ChaosError with the names of missing programs. `packages` maps each
    program to its Debian package.
    """
    if missing := [program for program in packages if shutil.which(program) is None]:
        names = " ".join(dict.fromkeys(packages[program] for program in missing))
        raise ChaosError(f"these programs are not installed: {', '.join(missing)}; on Debian: apt-get install {names}")
