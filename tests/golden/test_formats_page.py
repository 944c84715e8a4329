"""docs/FORMATS.md says what the code does."""

from __future__ import annotations

import re
from pathlib import Path

from ledger.backup import manifest
from ledger.backup.targets import sealed_target
from ledger.batch import header as batch
from ledger.state import encoding
from ledger.state.feature_levels import LATEST_LEVEL
from ledger.v1.command_pb2 import Command
from store.directory import vote_file
from store.directory.format_upgrade import FORMAT
from store.index import key_file
from store.log import entry
from store.snapshot import checkpoint, incoming_snapshot, snapshot
from tests.golden.program import ROOT
from tests.golden.wire import files

PAGE = (ROOT / "docs" / "FORMATS.md").read_text()
VERSIONED = (vote_file, snapshot, incoming_snapshot, checkpoint, key_file)


def rows(heading: str) -> list[list[str]]:
    """Return the cells of all tables below this heading, without their first two lines."""
    section = PAGE.split(f"## {heading}\n")[1].split("\n## ")[0]
    table = [[cell.strip() for cell in line.strip("|").split("|")] for line in section.splitlines() if line[:1] == "|"]
    return table[2:]


def magic(number: int) -> str:
    return number.to_bytes(4, "little").decode()


def test_the_versions_of_files_are_those_of_the_modules() -> None:
    assert f"| directory format | {FORMAT} |" in PAGE
    told = {row[4].strip("`"): (row[1].strip("`"), row[2]) for row in rows("Files of a node")}
    for module in VERSIONED:
        path = module.__name__.replace(".", "/") + ".py"
        assert told[path] == (magic(module.MAGIC), str(module.VERSION))
    assert (magic(entry.MAGIC), entry.VERSION) == ("LMQE", 1)
    assert (magic(batch.MAGIC), batch.VERSION) == ("LMQB", 1)


def test_the_versions_of_backups_are_those_of_the_modules() -> None:
    told = [(row[1].strip("`"), row[2].strip("`")) for row in rows("Backups")]
    assert ("JSON", f'"format": {manifest.FORMAT}') in told
    assert (sealed_target.MAGIC.decode(), str(sealed_target.VERSION)) in told


def test_the_kinds_of_entries_and_the_columns_of_batches_are_complete() -> None:
    assert [(row[0], row[1].strip("`")) for row in rows("Entries of the log")] == [
        (str(int(kind)), kind.name) for kind in entry.EntryKind
    ]
    columns = {row[1].strip("`"): 1 << int(row[0]) for row in rows("Batches")}
    assert columns == {name: getattr(batch, name) for name in columns}
    assert sum(columns.values()) == batch.ALL_COLUMNS


def test_each_feature_level_has_its_version_and_its_commands() -> None:
    levels = rows("State")
    assert f"| feature level | 0 to {LATEST_LEVEL} |" in PAGE
    assert [row[0] for row in levels] == [str(level) for level in range(LATEST_LEVEL + 1)]
    for level, version, *_ in levels:
        assert encoding._version(int(level)) == int(version)
    numbers = [number for row in levels for part in row[3].split(",") for number in _numbers(part)]
    assert sorted(numbers) == sorted(field.number for field in Command.DESCRIPTOR.fields)


def _numbers(part: str) -> range:
    found = [int(number) for number in re.findall(r"\d+", part)]
    return range(found[0], found[-1] + 1) if found else range(0)


def test_every_service_has_a_row_and_every_path_is_there() -> None:
    services = {service.full_name for file in files() for service in file.services_by_name.values()}
    told = set(re.findall(r"`((?:raft|ledger)\.v1\.[A-Za-z]+)`", "\n".join(map(str, rows("Messages on the network")))))
    assert told == services
    paths = re.findall(r"`((?:store|ledger|raft|proto|tests)/[a-z_0-9./-]+)`", PAGE)
    assert len(paths) > 30
    assert [path for path in paths if not (Path(ROOT) / path).exists()] == []
