"""Tests `ledgermq completion`, and the profiles, without a cluster."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cluster.cli.command import completed, run

pytestmark = pytest.mark.real


def test_commands_options_and_profiles_are_completed(tmp_path: Path) -> None:
    environment = {"LEDGERMQ_PROFILE_FILE": str(tmp_path / "profiles.toml")}
    for name in ("prod", "preview", "test"):
        run("profile", "add", name, "--bootstrap", "h:1", environment=environment, cwd=tmp_path)
    assert completed(tmp_path, "pro") == {"produce", "profile"}
    assert completed(tmp_path, "topic", "cr") == {"create"}
    assert completed(tmp_path, "consume", "orders", "--fo") == {"--follow", "--format"}
    assert completed(tmp_path, "consume", "orders", "--format", "") == {"text", "json"}
    assert completed(tmp_path, "profile", "use", "pr") == {"prod", "preview"}
    # A user without a password is not asked for it, and nothing is connected.
    assert completed(tmp_path, "consume", "--user", "u", "--profile", "te", LEDGERMQ_USER="u") == {"test"}


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_script_of_each_shell(shell: str, tmp_path: Path) -> None:
    script = run("completion", shell).stdout.decode()
    assert "_LEDGERMQ_COMPLETE" in script
    assert f"{shell}_complete" in script
    if shutil.which(shell):
        (tmp_path / "script").write_text(script)
        subprocess.run([shell, "-n", str(tmp_path / "script")], check=True)


@pytest.mark.parametrize(
    ("line", "offered"),
    [
        ("ledgermq topic cre", "create"),
        ("ledgermq consume --bootstrap 127.0.0.1:1 orders --fo", "--follow --format"),
        ("ledgermq consume --bootstrap=127.0.0.1:1 orders --format ", "text json"),
        ("ledgermq consume orders --format=js", "json"),
    ],
)
def test_bash_completes_with_the_script(line: str, offered: str, tmp_path: Path) -> None:
    """Bash splits an address at its colon, and an option at its "="."""
    (tmp_path / "ledgermq").write_text(f'#!/bin/sh\nexec {sys.executable} -m ledgermq "$@"\n')
    (tmp_path / "ledgermq").chmod(0o755)
    script = f"""eval "$(ledgermq completion bash)"
COMP_LINE={line!r}; COMP_POINT=${{#COMP_LINE}}; _ledgermq_completion ledgermq; echo "${{COMPREPLY[@]}}\""""
    path = f"{tmp_path}:{os.environ['PATH']}"
    done = subprocess.run(["bash", "-c", script], env={**os.environ, "PATH": path}, capture_output=True, check=True)
    assert done.stdout.decode().strip() == offered, done.stderr


def test_profiles_without_a_cluster(tmp_path: Path) -> None:
    environment = {"LEDGERMQ_PROFILE_FILE": str(tmp_path / "profiles.toml")}
    run("profile", "add", "here", "--bootstrap", "h:1, g:2", environment=environment)
    run("profile", "add", "there", "--servers", "i:3", "--tls", environment=environment)
    table = run("profile", "list", environment=environment).stdout.decode().splitlines()
    assert [line.split() for line in table[1:]] == [["*", "here", "h:1,g:2", "no", "-"], ["there", "i:3", "yes", "-"]]
    run("profile", "use", "there", environment=environment)
    assert json.loads(run("profile", "list", "--format", "json", environment=environment).stdout)["default"] == "there"
    assert b"h:99999" in run("profile", "add", "x", "--bootstrap", "h:99999", environment=environment, status=2).stderr
    assert b"There is no profile" in run("profile", "use", "x", environment=environment, status=1).stderr
