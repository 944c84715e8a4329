"""The report kit: pages load nothing and escape their values; a figure always gives the same bytes."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest

pytest.importorskip("matplotlib")
pytest.importorskip("jinja2")

import matplotlib as mpl
from jinja2 import UndefinedError
from matplotlib.figure import Figure

from ledger.report.figures import as_svg, drawing, lines_across, save, without_frame
from ledger.report.page import write_page
from ledger.report.text import markdown_table, write_json
from tests.test_architecture import ROOT, imported

pytestmark = pytest.mark.long

PAGE = """{% extends "base.html" %}
{% from "parts.html" import badge, number, tiles %}
{% block title %}{{ name }}{% endblock %}
{% block content %}
{{ badge(name, "good") }}{{ tiles([("things", "<1>")]) }}[{{ number(none) }}|{{ number(1234) }}]
{% endblock %}
"""


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The name of a package with a page."""
    folder = tmp_path / "package_with_a_page"
    folder.mkdir()
    (folder / "__init__.py").touch()
    (folder / "page.html").write_text(PAGE)
    monkeypatch.syspath_prepend(str(tmp_path))
    return folder.name


def a_figure() -> Figure:
    """Three rows and a column beside them, so that the layout has something to solve."""
    with drawing(4) as figure:
        rows = figure.subplots(3, 2, sharex=True, height_ratios=(0.5, 3, 3))
        for axes in rows.flat:
            axes.plot([1, 2], [3, 4], marker="o")
            axes.set_ylabel("one & two")
            lines_across(axes, "y")
            without_frame(axes)
    return figure


def test_a_page_is_its_blocks_in_the_frame_and_its_values_are_escaped(package: str, tmp_path: Path) -> None:
    page = write_page(tmp_path / "out.html", package, name="a <b>").read_text(encoding="utf-8")
    assert page.startswith("<!doctype html>")
    assert "<title>a &lt;b&gt;</title>" in page
    assert '<span class="verdict good">a &lt;b&gt;</span>' in page
    assert "<div><b>&lt;1&gt;</b>things</div>" in page
    assert "[–|1,234]" in page
    assert page.rstrip().endswith("</html>")
    assert "http" not in page, "a page loads nothing"


def test_reports_beside_each_other_are_linked_both_ways(package: str, tmp_path: Path) -> None:
    (tmp_path / "first").mkdir()
    (tmp_path / "se cond").mkdir()
    (tmp_path / "first" / "notes.html").write_text("<title>mine</title>", encoding="utf-8")
    first = write_page(tmp_path / "first" / "report.html", package, name="one <b>")
    second = write_page(tmp_path / "se cond" / "index.html", package, name="two")
    write_page(second, package, name="two again")
    assert '<a href="../se%20cond/index.html">two again</a>' in first.read_text(encoding="utf-8")
    assert '<a href="../first/report.html">one &lt;b&gt;</a>' in second.read_text(encoding="utf-8")
    assert second.read_text(encoding="utf-8").count("<a href") == 1
    assert (tmp_path / "first" / "notes.html").read_text(encoding="utf-8") == "<title>mine</title>"


def test_a_value_that_is_missing_is_an_error_and_not_an_empty_place(package: str, tmp_path: Path) -> None:
    with pytest.raises(UndefinedError, match="name"):
        write_page(tmp_path / "out.html", package)
    assert not (tmp_path / "out.html").exists()


def test_the_same_figure_gives_the_same_bytes(tmp_path: Path) -> None:
    files = []
    for number in range(4):
        directory = tmp_path / str(number)
        directory.mkdir()
        save(a_figure(), directory, "figure")
        files.append([path.read_bytes() for path in sorted(directory.iterdir())])
    assert files == [files[0]] * 4
    assert [content[:5] for content in files[0]] == [b"\x89PNG\r", b"<?xml"]
    assert as_svg(a_figure(), "figure") == as_svg(a_figure(), "figure")


def test_figures_of_one_page_share_no_references() -> None:
    def names(svg: str) -> set[str]:
        ids = {element.get("id") or "" for element in ElementTree.fromstring(svg).iter()}
        return {name for name in ids if f"#{name}" in svg and name}

    one, two = names(as_svg(a_figure(), "one")), names(as_svg(a_figure(), "two"))
    assert one
    assert not one & two


def test_an_embedded_figure_is_an_element_whose_text_can_be_selected() -> None:
    svg = as_svg(a_figure(), "figure")
    assert svg.startswith("<svg")
    assert "one & two" in "".join(ElementTree.fromstring(svg).itertext())


def test_drawing_leaves_the_settings_of_the_process_alone() -> None:
    before = dict(mpl.rcParams)
    as_svg(a_figure(), "figure")
    assert dict(mpl.rcParams) == before


def test_text_needs_the_standard_library_only() -> None:
    """Verdicts and tables are written also where jinja2 and matplotlib are not installed."""
    found = {name.split(".")[0] for name in imported(ROOT / "ledger/report/text.py")}
    assert "json" in found
    assert found <= sys.stdlib_module_names


def test_a_markdown_table() -> None:
    assert markdown_table(["a", "b"], [["1", "2"], ["3", "4"]]) == "| a | b |\n| --- | --- |\n| 1 | 2 |\n| 3 | 4 |"
    assert markdown_table(["a"], []) == "| a |\n| --- |"


def test_a_json_file_ends_with_a_line_end(tmp_path: Path) -> None:
    write_json(tmp_path / "a.json", {"a": [1]})
    text = (tmp_path / "a.json").read_text()
    assert json.loads(text) == {"a": [1]}
    assert text.endswith("}\n")
