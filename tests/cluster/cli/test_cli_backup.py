"""`ledgermq backup` and `ledgermq restore` as a person runs them, with node processes."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from shlex import quote

import pytest

from ledger.backup.manifest import Manifest, encode_manifest, manifest_name
from ledger.backup.targets.directory_target import DirectoryTarget
from ledger.errors import UnavailableError
from ledgermq import AsyncAdmin
from tests.cluster.backup.backed_up import contents, fill
from tests.cluster.cli.command import run
from tests.cluster.fleet import MakeFleet
from tests.cluster.node_process import NodeProcess
from tests.cluster.ports import free_base_port
from tests.cluster.waiter import eventually

pytestmark = pytest.mark.real


async def test_from_the_first_backup_to_a_new_cluster(make_fleet: MakeFleet, tmp_path: Path) -> None:
    old = make_fleet(1, cluster="old", shards=2)
    await old.start()
    await old.leader()
    async with AsyncAdmin(old.bootstrap) as admin:
        await admin.create_topic("orders", 2)
    await fill(old, "orders", 500)
    before = await contents(old)
    target, key = str(tmp_path / "all backups"), str(tmp_path / "key")
    at = ["--bootstrap", old.bootstrap[0]]

    async def command(*arguments: str, status: int = 0) -> tuple[str, str]:
        done = await asyncio.to_thread(lambda: run(*arguments, status=status))
        return done.stdout.decode(), done.stderr.decode()

    assert "no whole backup" in (await command("backup", "check", target, status=1))[1]
    assert "Wrote" in (await command("backup", "new-key", key))[1]
    made = json.loads((await command("backup", "create", target, "--key-file", key, *at, "--format", "json"))[0])
    told = (await command("backup", "create", target, "--key-file", key, *at))[1]
    assert "of 2 shards" in told
    assert "MB were copied" in told
    assert f"Check it with `ledgermq backup check {quote(target)}`." in told
    assert "--key-file" in (await command("backup", "list", target, status=1))[1]
    listed = (await command("backup", "list", target, "--key-file", key))[0].splitlines()
    assert len(listed) == 3
    assert made["name"] in listed[1]
    assert "whole: backup" in (await command("backup", "check", target, made["name"], "--key-file", key))[0]
    directory = tmp_path / "restored"
    address = f"127.0.0.1:{free_base_port(1)}"
    restore = ["restore", target, str(directory), "--key-file", key, "--node", f"1={address}"]
    assert "choose another name" in (await command(*restore, "--cluster", "old", status=1))[1]
    assert "has no backup x" in (await command(*restore, "--cluster", "new", "--backup", "x", status=1))[1]
    shards = json.loads((await command(*restore, "--cluster", "new", "--format", "json"))[0])["shards"]
    assert [each["shard"] for each in shards] == [0, 1]
    assert "is not empty" in (await command(*restore, "--cluster", "new", status=1))[1]
    again = str(tmp_path / "to look at")
    told = (await command("restore", target, again, "--key-file", key, "--node", "1=a:1", "--cluster", "new"))[1]
    assert f"start every node: ledgermq server run --config {quote(f'{again}/node-1.toml')}\n" in told
    await old.stop()
    with NodeProcess(directory / "node-1.toml"):
        new = _Restored(address)

        async def is_up() -> bool:
            try:
                async with AsyncAdmin(new.bootstrap, request_timeout_ms=1_000) as admin:
                    return (await admin.cluster())[0].shards[0].role == "leader"
            except UnavailableError:
                return False

        await eventually(is_up, "the restored node leads")
        assert await contents(new) == before  # type: ignore[arg-type]
        name = (await command("validate", str(directory / "node-1")))[0]
        assert "VALID: no violation found" in name
    piece = max((tmp_path / "all backups" / "shards" / "0" / "log").iterdir(), key=lambda path: path.stat().st_size)
    piece.write_bytes(piece.read_bytes()[:-1] + b"x")
    damaged = (await command("backup", "check", target, "--key-file", key, status=1))[0]
    assert f"{piece.name} is damaged: it cannot be decrypted" in damaged
    assert "DAMAGED: 1 flaw" in damaged
    assert "Removed 1 backup" in (await command("backup", "prune", target, "--key-file", key, "--keep", "1"))[1]


class _Restored:
    """A restored node, for functions that take a fleet."""

    def __init__(self, address: str) -> None:
        self.bootstrap = [address]


def test_what_is_typed_wrongly_is_told(tmp_path: Path) -> None:
    restore = ["restore", str(tmp_path), str(tmp_path / "new"), "--cluster", "new"]
    for nodes, why in (
        (["--node", "x"], "does not have the form 1=HOST:PORT"),
        (["--node", "0=a:1"], "is no number of a node"),
        (["--node", "1=a:1", "--node", "1=b:1"], "a node is named twice"),
        ([], "Missing option"),
    ):
        assert why in run(*restore, *nodes, status=2).stderr.decode().replace("\n", " ")


def test_a_target_without_backups_is_told_with_the_command(tmp_path: Path) -> None:
    target = tmp_path / "it's empty"
    target.mkdir()
    said = run("backup", "list", str(target)).stderr.decode()
    assert f"make one with `ledgermq backup create {quote(str(target))}`" in said


def test_a_damaged_manifest_is_named(tmp_path: Path) -> None:
    for name in ("1", "2"):
        manifest = Manifest(name, "old", "0.1.0", 1, 2, 3, 0, ())
        DirectoryTarget(tmp_path).put(manifest_name(name), encode_manifest(manifest))
    damaged = tmp_path / "manifests" / "2.json"
    damaged.write_bytes(damaged.read_bytes()[:100])
    target = str(tmp_path)

    listed = run("backup", "list", target)
    assert [line.split()[:2] for line in listed.stdout.decode().splitlines()[1:]] == [["1", "old"], ["2", "damaged"]]
    assert "Warning: manifests/2.json is no whole manifest" in listed.stderr.decode()
    told = json.loads(run("backup", "list", target, "--format", "json").stdout)
    assert [each["name"] for each in told["backups"]] == ["1"]
    assert [each["name"] for each in told["damaged"]] == ["2"]

    checked = run("backup", "check", target, status=1).stdout.decode()
    assert "manifests/2.json is no whole manifest" in checked
    assert "DAMAGED: 1 flaw in backup 2. Use another backup" in checked

    restore = ["restore", target, str(tmp_path / "new"), "--cluster", "new", "--node", "1=127.0.0.1:1"]
    assert "choose another one, for example 1" in run(*restore, status=1).stderr.decode()

    refused = run("backup", "prune", target, "--keep", "1", status=1).stderr.decode()
    assert f"remove {damaged}, then prune again" in refused
    damaged.unlink()
    assert "Removed 0 backups" in run("backup", "prune", target, "--keep", "1").stderr.decode()
