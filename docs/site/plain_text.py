"""Turns the plain text of docstrings and of command help into reStructuredText.

Docstrings are written to be read in an editor. Their rules, by which this module reads them:

    `name`                 code; in the API reference a link, if it is a public name
    an indented block      a sample of code, or a drawing
    name    description    rows of a table, in an indented block or not; a description goes on below its first word
    - item                 a list

All other text is prose. No character of prose has a meaning for reStructuredText.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Collection, Iterator
from itertools import groupby
from typing import NamedTuple

_ROW = re.compile(r"(?P<name>\S+(?: \S+)*)(?P<gap> {2,})(?P<text>[^\s#].*)")
_CODE = re.compile(r"(`+)(.+?)\1", re.DOTALL)
_ENUMERATION = re.compile(r"(\d+|[A-Za-z]|[ivxlcdm]+|[IVXLCDM]+)[.)] ")
_BLOCK_MARK = "\b"  # click's: the next paragraph keeps its lines


class Row(NamedTuple):
    """One row of a table: a name, and the lines of its description."""

    name: str
    lines: list[str]


def to_rst(
    text: str,
    code: Callable[[str], str],
    prose: Callable[[str], str] = lambda words: words,
    without: Collection[str] = (),
) -> str:
    """Return a text, as inspect.cleandoc leaves it, as reStructuredText. `code` gives the role or literal for what is
    between backticks, and `prose` may put links into escaped prose. Rows of tables with the names `without` are left
    out."""
    writer = _Writer(code, prose, without)
    written: list[str] = []
    for lines in _blocks(text):
        block = writer.block(lines)
        if block:
            written.append(block)
        elif written and written[-1].endswith(":"):  # "Fields:" above a table of which nothing is left
            written.pop()
    return "\n\n".join(written) + "\n"


def tables(text: str) -> Iterator[tuple[str, str]]:
    """Return the names and descriptions in the tables of the text."""
    for lines in _blocks(text):
        rows, _ = table(_dedent(lines)) or ([], [])
        for row in rows:
            for name in row.name.split(", "):
                yield name, " ".join(line.strip() for line in row.lines)


def literal(text: str) -> str:
    """Return a literal of reStructuredText with this text."""
    return f"``{text}``" if text.strip() == text and "``" not in text else escape(text)


def escape(text: str) -> str:
    """Escape the characters that have a meaning in reStructuredText."""
    return re.sub(r"[\\*|`]|_(?!\w)", r"\\\g<0>", text)


def _blocks(text: str) -> Iterator[list[str]]:
    """Return the paragraphs; samples that blank lines divide into paragraphs are one block."""
    sample: list[str] = []
    for filled, group in groupby(text.expandtabs().splitlines(), key=lambda line: bool(line.strip())):
        lines = list(group)
        if filled and _indented(lines) and not (sample and table(_dedent(sample))):
            sample += ["", *lines] if sample else lines
            continue
        if filled:
            if sample:
                yield sample
            sample = lines if _indented(lines) else []
            if not sample:
                yield lines
    if sample:
        yield sample


def _indented(lines: list[str]) -> bool:
    return all(line.startswith("  ") for line in lines if line)


def _dedent(lines: list[str]) -> list[str]:
    margin = min(len(line) - len(line.lstrip()) for line in lines if line)
    return [line[margin:] for line in lines]


def table(lines: list[str]) -> tuple[list[Row], list[str]] | None:
    """Return the rows at the start of the lines and the lines after them, or None if the lines are no table."""
    first = _ROW.fullmatch(lines[0])
    if first is None:
        return None
    column = first.start("text")
    rows: list[Row] = []
    for number, line in enumerate(lines):
        head, tail = line[:column], line[column:]
        if head.strip() and not head.startswith(" ") and head.endswith("  ") and tail[:1].strip():
            rows.append(Row(head.strip(), [tail]))
        elif rows and not head.strip() and tail[:1].strip():
            rows[-1].lines.append(tail)
        elif _wide_name(lines, number, column):
            rows.append(Row(line, []))
        else:
            return rows, lines[number:]
    return rows, []


def _wide_name(lines: list[str], number: int, column: int) -> bool:
    """Return True if this line is a name that is wider than its column: the next line has the description."""
    line, after = lines[number], lines[number + 1 : number + 2]
    return not line.startswith(" ") and bool(after) and not after[0][:column].strip() and "  " not in line


class _Writer:
    """Writes blocks as reStructuredText."""

    def __init__(self, code: Callable[[str], str], prose: Callable[[str], str], without: Collection[str]) -> None:
        self._code = code
        self._prose = prose
        self._without = without

    def block(self, lines: list[str]) -> str:
        if lines[0].strip() == _BLOCK_MARK:
            return self._sample(_dedent(lines[1:]))
        if _indented(lines):
            plain = _dedent(lines)
            found = table(plain)
            return self._table(*found) if found and not found[1] else self._sample(plain)
        found = table(lines)
        if found and len(found[0]) > 1:
            return self._table(*found)
        if lines[0].startswith("- "):
            return self._list(lines)
        prose = self._lines(lines)
        return prose if prose[0].isalpha() and not _ENUMERATION.match(prose) else f"\\ {prose}"

    def inline(self, text: str) -> str:
        """Return prose with code, and with all other characters escaped."""
        parts = []
        end = 0
        for match in _CODE.finditer(text):
            before = text[end : match.start()]
            parts += [self._prose(escape(before)), self._code(" ".join(match[2].split()))]
            end = match.end()
        rest = text[end:]
        if rest.endswith("::"):
            rest = rest[:-1]
        return "\\ ".join(part for part in [*parts, self._prose(escape(rest))] if part)

    def _table(self, rows: list[Row], rest: list[str]) -> str:
        kept = (row for row in rows if not all(name in self._without for name in row.name.split(", ")))
        entries = "\n".join(f"{self._names(row.name)}\n    {self._lines(row.lines)}" for row in kept)
        return "\n\n".join(part for part in (entries, self.block(rest) if rest else "") if part)

    def _names(self, name: str) -> str:
        if "`" in name:
            return self.inline(name)
        return ", ".join(literal(each) for each in name.split(", "))

    def _lines(self, lines: list[str]) -> str:
        return self.inline(" ".join(line.strip() for line in lines))

    def _list(self, lines: list[str]) -> str:
        items: list[list[str]] = []
        for line in lines:
            if line.startswith("- "):
                items.append([line[2:]])
            else:
                items[-1].append(line)
        return "\n".join(f"- {self._lines(item)}" for item in items)

    def _sample(self, lines: list[str]) -> str:
        language = "python" if _is_python("\n".join(lines)) else "text"
        body = "\n".join(f"    {line}".rstrip() for line in lines)
        return f".. code-block:: {language}\n\n{body}"


def _is_python(text: str) -> bool:
    try:
        ast.parse(f"async def sample():\n{_shifted(text)}")
    except SyntaxError:
        return False
    return True


def _shifted(text: str) -> str:
    return "\n".join(f" {line}" for line in text.splitlines())
