"""The site of the documents: its build has no warning, it is complete, and it loads nothing from elsewhere."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from functools import cached_property
from html.parser import HTMLParser
from importlib import import_module
from pathlib import Path
from typing import NamedTuple
from urllib.parse import unquote

import click
import pytest
from sphinx.util.inventory import InventoryFile

import ledgermq
from cluster.cli import ledgermq as command_line
from cluster.node.settings import NodeSettings

pytestmark = [pytest.mark.real, pytest.mark.timeout(300)]

ROOT = Path(__file__).resolve().parents[2]
MODULES = sorted(
    "ledgermq" if path.stem == "__init__" else f"ledgermq.{path.stem}"
    for path in (ROOT / "ledgermq").glob("*.py")
    if path.stem == "__init__" or not path.stem.startswith("_")
)
LOADING = {"audio", "embed", "iframe", "img", "input", "link", "object", "script", "source", "track", "video"}


class Link(NamedTuple):
    """One reference of a page. `loaded` is True if a browser loads it to show the page."""

    target: str
    loaded: bool


class Page(HTMLParser):
    """The references and anchors of one page."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.links: list[Link] = []
        self.anchors: set[str] = set()
        self.styles = ""
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        for name, value in attributes:
            if name == "id" and value:
                self.anchors.add(value)
            if name in ("src", "href", "data", "poster", "action") and value:
                self.links.append(Link(value, tag in LOADING))
            if name in ("style", "srcset") and value:
                self.styles += value + "\n"


class Site:
    """The built site."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.pages = {path: Page(path) for path in sorted(folder.rglob("*.html"))}

    @cached_property
    def objects(self) -> dict[str, set[str]]:
        """The names that the site defines, by kind, such as "py:class"."""
        inventory = InventoryFile.loads((self.folder / "objects.inv").read_bytes(), uri="")
        return {kind: set(names) for kind, names in inventory.data.items()}

    @property
    def python_names(self) -> set[str]:
        return {name for kind, names in self.objects.items() if kind.startswith("py:") for name in names}


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Site:
    folder = tmp_path_factory.mktemp("docs") / "site"
    built = subprocess.run(
        [ROOT / "scripts/site", sys.prefix, folder], cwd=ROOT, capture_output=True, text=True, timeout=280
    )
    assert (built.returncode, built.stdout + built.stderr) == (0, "")
    return Site(folder)


def test_every_public_name_is_in_the_reference(site: Site) -> None:
    assert len(MODULES) >= 7
    for module in MODULES:
        names = {f"{module}.{name}" for name in import_module(module).__all__}
        assert names - site.python_names == set()


def test_every_method_of_a_client_is_in_the_reference(site: Site) -> None:
    clients = [name for name in ledgermq.__all__ if re.fullmatch(r"(Async)?(Admin|(\w*)(Consumer|Producer))", name)]
    assert len(clients) == 12
    for client in clients:
        methods = {name for name in dir(getattr(ledgermq, client)) if not name.startswith("_")}
        assert {f"ledgermq.{client}.{name}" for name in methods} - site.python_names == set()


def test_the_settings_of_clients_are_in_their_signatures(site: Site) -> None:
    page = (site.folder / "docs/site/api/producers.html").read_text(encoding="utf-8")
    for client in ("AsyncProducer", "Producer"):
        signature = page.partition(f'id="ledgermq.{client}"')[2].partition("</dt>")[0]
        assert {"linger_ms", "batch_bytes", "rng"} <= set(re.findall(r"\w+", signature))
        assert "arguments" not in signature


def test_every_setting_command_and_example_is_shown(site: Site) -> None:
    assert site.objects["std:confval"] == set(NodeSettings.model_fields)
    commands = site.pages[site.folder / "docs/site/commands.html"].anchors
    assert {path.replace(" ", "-") for path in command_paths(command_line, "ledgermq")} - commands == set()
    scripts = {path.stem.replace("_", "-") for path in (ROOT / "examples").rglob("*.py")}
    shown = site.pages[site.folder / "docs/site/examples.html"].anchors
    assert {script for script in scripts if not any(anchor.endswith(script) for anchor in shown)} == set()


def command_paths(group: click.Group, path: str) -> Iterator[str]:
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None
        if not command.hidden:
            yield f"{path} {name}"
            if isinstance(command, click.Group):
                yield from command_paths(command, f"{path} {name}")


def test_every_document_is_a_page(site: Site) -> None:
    documents = {path.relative_to(ROOT) for path in [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]}
    documents = {path.with_suffix("") for path in documents if path.name[0].isupper() or path.parts[1] == "adr"}
    assert len(documents) > 25
    assert documents - {path.relative_to(site.folder).with_suffix("") for path in site.pages} == set()
    assert (site.folder / "index.html").read_bytes() == (site.folder / "README.html").read_bytes()


def test_links_lead_somewhere(site: Site) -> None:
    broken = []
    for path, page in site.pages.items():
        for link in page.links:
            file, _, anchor = unquote(link.target).partition("#")
            if re.match(r"[a-z]+:", file):
                continue
            target = (path.parent / file.partition("?")[0]).resolve() if file else path
            anchors = site.pages[target].anchors if target in site.pages else set()
            if not target.is_file() or (anchor and target.suffix == ".html" and anchor not in anchors):
                broken.append((str(path.relative_to(site.folder)), link.target))
    assert broken == []


def test_nothing_is_loaded_from_another_host(site: Site) -> None:
    elsewhere = re.compile(r"(?:[a-z]+:)?//", re.IGNORECASE)
    for path, page in site.pages.items():
        assert [link.target for link in page.links if link.loaded and elsewhere.match(link.target)] == [], path
        assert not re.search(r"url\(\s*[\"']?(?:https?:)?//", page.styles), path
    styles = [path.read_text(encoding="utf-8") for path in site.folder.rglob("*.css")]
    assert len(styles) > 2
    for text in styles:
        assert re.findall(r"(?:url\(\s*|@import\s+)[\"']?((?:https?:)?//[^\"')]+)", text) == []
    for path in site.folder.rglob("*.js"):
        loads = r"(?:fetch|import|importScripts|open)\(\s*[\"'`](?:https?:)?//|\.src\s*=\s*[\"'`](?:https?:)?//"
        assert re.findall(loads, path.read_text(encoding="utf-8")) == [], path


def test_the_search_needs_no_server(site: Site) -> None:
    """The index is a script, which a browser loads from a file. It may not load data from one."""
    scripts = [link.target for link in site.pages[site.folder / "search.html"].links if link.target.endswith(".js")]
    assert "searchindex.js" in scripts
    assert (site.folder / "searchindex.js").read_text(encoding="utf-8").startswith("Search.setIndex(")
