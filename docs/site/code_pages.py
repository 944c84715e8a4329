"""Directives for pages that are made from the code: commands, settings and examples."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

from cluster.cli import ledgermq as command_line
from cluster.node.settings import NodeSettings
from fields import Setting, Setup, chapters
from plain_text import literal, to_rst
from site_pages import anchor

ROOT = Path(__file__).resolve().parent.parent.parent


class CodePage(SphinxDirective):
    """A directive that writes reStructuredText and shows it in its place."""

    def rst(self) -> Iterator[str]:
        """Return the text, in parts that become paragraphs."""
        raise NotImplementedError

    def run(self) -> list[nodes.Node]:
        return self.parse_text_to_nodes("\n\n".join(self.rst()) + "\n", allow_section_headings=True)


def heading(title: str, line: str) -> str:
    return f"{title}\n{line * len(title)}"


def indented(text: str, by: int = 4) -> str:
    return "\n".join(" " * by + line if line else "" for line in text.splitlines())


def plain(text: str) -> str:
    return to_rst(text, literal)


class Commands(CodePage):
    """Every command of the command line, with its help and its options."""

    def rst(self) -> Iterator[str]:
        return self._commands(command_line, click.Context(command_line, info_name="ledgermq"), "=-~")

    def _commands(self, group: click.Group, context: click.Context, lines: str) -> Iterator[str]:
        for name in group.list_commands(context):
            command = group.get_command(context, name)
            assert command is not None
            if not command.hidden:
                yield from self._command(command, click.Context(command, parent=context, info_name=name), lines)

    def _command(self, command: click.Command, context: click.Context, lines: str) -> Iterator[str]:
        path = context.command_path
        yield heading(path, lines[0])
        yield f".. code-block:: text\n\n    {command.get_usage(context).removeprefix('Usage: ')}"
        yield plain(command.help or command.short_help or "")
        yield f".. program:: {path}"
        for parameter in command.get_params(context):
            record = parameter.get_help_record(context)
            if record and isinstance(parameter, click.Option) and "--help" not in parameter.opts:
                yield f".. option:: {record[0]}\n\n{indented(plain(record[1]))}"
        if isinstance(command, click.Group):
            yield from self._commands(command, context, lines[1:])


class Settings(CodePage):
    """Every setting of a node, with its kind, limits and default."""

    def rst(self) -> Iterator[str]:
        for title, note, setups in chapters(NodeSettings):
            yield heading(title[0].upper() + title[1:], "=")
            yield plain(f"{note[0].upper()}{note[1:]}") if note else ""
            for setup in setups:
                yield from self._setup(setup)

    def _setup(self, setup: Setup) -> Iterator[str]:
        first, *others = setup.settings
        yield self._setting(first, plain(setup.comment))
        for each in others:
            yield self._setting(each, f"See :confval:`{first.name}`.")

    def _setting(self, setting: Setting, text: str) -> str:
        default = f"\n    :default: {literal(setting.default)}" if setting.default else ""
        return f".. confval:: {setting.name}\n    :type: {plain(setting.kind).strip()}{default}\n\n{indented(text)}"


class Examples(CodePage):
    """Every script of examples/, whole, read from its file."""

    def rst(self) -> Iterator[str]:
        folder = ROOT / "examples"
        for path in sorted(folder.rglob("*.py")):
            name = str(path.relative_to(folder))
            yield f".. _{anchor(name)}:"
            yield heading(name, "=")
            yield f".. literalinclude:: /examples/{name}\n    :language: python\n    :caption: examples/{name}"


def setup(app: Sphinx) -> dict[str, Any]:
    app.add_directive("ledgermq-commands", Commands)
    app.add_directive("ledgermq-settings", Settings)
    app.add_directive("ledgermq-examples", Examples)
    return {"parallel_read_safe": True}
