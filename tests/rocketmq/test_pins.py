"""The versions of the official clients are pinned, and the pins name no registry: it is that of the machine."""

from __future__ import annotations

import json
import re

import pytest

from tests.rocketmq.programs import SOURCES

ADDRESS = re.compile(r"https?://(?!maven\.apache\.org/POM/)|\bregistry\+|\bsparse\+")
PINS = ("python/requirements.txt", "node/package-lock.json", "java/pom.xml", "rust/Cargo.pins")


@pytest.mark.parametrize("name", PINS)
def test_pins_name_no_registry(name: str) -> None:
    text = (SOURCES / name).read_text()
    assert [line for line in text.splitlines() if ADDRESS.search(line) and '"url"' not in line] == []


def test_everything_that_is_installed_has_a_checksum() -> None:
    python = (SOURCES / PINS[0]).read_text()
    assert all("--hash=" in block for block in re.split(r"^[\w.\[\]-]+==", python, flags=re.MULTILINE)[1:])
    node = json.loads((SOURCES / PINS[1]).read_text())["packages"]
    assert all("integrity" in package for name, package in node.items() if name)
    rust = (SOURCES / PINS[3]).read_text()
    # All but the program itself.
    assert rust.count("checksum = ") == rust.count("[[package]]") - 1
