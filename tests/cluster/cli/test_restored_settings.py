"""Tests the settings files of the nodes of a restored cluster."""

from __future__ import annotations

from pathlib import Path

from cluster.cli.backup.restored_settings import settings_text
from cluster.node.settings import NodeSettings


def test_a_node_understands_settings_below_a_path_with_an_emoji(tmp_path: Path) -> None:
    directory = tmp_path / "📦"
    directory.mkdir()
    (directory / "cluster.secret").write_text("secret\n")
    path = directory / "node-2.toml"
    path.write_text(settings_text(2, "new", {2: "127.0.0.1:9871", 3: "127.0.0.1:9881"}, directory), encoding="utf-8")
    settings = NodeSettings.load(path)
    assert settings.data == directory / "node-2"
    assert settings.peers == {2: "127.0.0.1:9871", 3: "127.0.0.1:9881"}
