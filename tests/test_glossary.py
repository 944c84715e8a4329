"""The glossary and the code agree by exact identifiers, and the names in documents, tests and filters exist."""

from __future__ import annotations

import ast
import importlib
import re
from collections import Counter
from functools import cache
from pathlib import Path
from typing import Any

import click
import pytest

import ledgermq
from cluster.cli import ledgermq as command_line
from cluster.node.metrics.catalogue import METRICS
from cluster.node.settings import NodeSettings

ROOT = Path(__file__).resolve().parent.parent
PACKAGES = ("ledgermq", "store", "raft", "ledger", "cluster", "chaos", "pyspark_ledgermq", "pyspark_ledgermq_log")
FOLDERS = (*PACKAGES, "proto", "bench", "tests", "examples", "deploy", "docs", "scripts", "requirements")


class Names:
    """The names that the code defines, in Python and in the proto files."""

    def __init__(self) -> None:
        self.classes: set[str] = set()
        self.others: set[str] = set()
        for package in PACKAGES:
            for path in (ROOT / package).rglob("*.py"):
                if not path.stem.endswith(("_pb2", "_pb2_grpc")):
                    self._add(ast.parse(path.read_text(encoding="utf-8")))
        for path in (ROOT / "proto").rglob("*.proto"):
            text = re.sub(r"//.*", "", path.read_text(encoding="utf-8"))
            self.classes |= set(re.findall(r"\b(?:message|service|enum|rpc)\s+(\w+)", text))
            self.others |= set(re.findall(r"\b(\w+)\s*=\s*\d+\s*[;\[]", text))

    def _add(self, tree: ast.AST) -> None:
        for node in ast.walk(tree):
            match node:
                case ast.ClassDef(name=name):
                    self.classes.add(name)
                case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.arg(arg=name):
                    self.others.add(name)
                case ast.AnnAssign(target=ast.Name(id=name)):
                    self.others.add(name)
                case ast.Assign(targets=targets):
                    self.others |= {target.id for target in targets if isinstance(target, ast.Name)}


@cache
def names() -> Names:
    return Names()


@cache
def commands() -> dict[str, set[str]]:
    """Return every command of the command line, with its long options. Hidden options are left out: they only name
    their replacement."""
    found: dict[str, set[str]] = {}

    def visit(command: click.Command, path: str, context: click.Context) -> None:
        shown = [each for each in command.params if not getattr(each, "hidden", False)]
        found[path] = {option for each in shown for option in each.opts if option.startswith("--")}
        if isinstance(command, click.Group):
            for name in command.list_commands(context):
                inner = command.get_command(context, name)
                assert inner is not None
                visit(inner, f"{path} {name}", context)

    visit(command_line, "ledgermq", click.Context(command_line))
    return found


@cache
def options() -> set[str]:
    return set().union(*commands().values())


@cache
def metrics() -> set[str]:
    """Return the names of our metrics as Prometheus shows them."""
    return {metric.name for metric in METRICS if metric.name.startswith("ledgermq_")}


def glossary() -> list[tuple[str, list[str]]]:
    """Return the words of the glossary, each with the identifiers of its third column."""
    rows = []
    for line in (ROOT / "docs/GLOSSARY.md").read_text(encoding="utf-8").splitlines():
        cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
        if line.startswith("|") and not line.startswith("| ---") and cells[0] != "word":
            rows.append((cells[0], re.findall(r"`([^`]+)`", cells[2])))
    return rows


def defined() -> set[str]:
    return {identifier for _, identifiers in glossary() for identifier in identifiers}


def exists(identifier: str) -> bool:
    if identifier.startswith("make "):
        return re.search(rf"(?m)^{identifier.removeprefix('make ')}:", (ROOT / "Makefile").read_text()) is not None
    if identifier == "ledgermq" or identifier.startswith("ledgermq "):
        return identifier in commands()
    if identifier.startswith("--"):
        return identifier in options()
    if identifier.startswith("ledgermq_"):
        return identifier in metrics()
    if "/" in identifier:
        return (ROOT / identifier).exists()
    return identifier in names().classes | names().others


def test_the_glossary_has_its_form() -> None:
    rows = glossary()
    assert len(rows) > 140
    assert [word for word, identifiers in rows if not identifiers] == []
    assert [word for word, count in Counter(word for word, _ in rows).items() if count > 1] == []


def test_every_identifier_of_the_glossary_exists() -> None:
    assert sorted(identifier for identifier in defined() if not exists(identifier)) == []


@pytest.mark.parametrize(
    "identifier",
    ["--lane", "ledgermq group join", "ledgermq_raft_lane", "LocalGroup", "make tea", "raft/core/lane.py", "a_lane"],
)
def test_a_wrong_identifier_is_found(identifier: str) -> None:
    assert not exists(identifier)


def test_every_public_name_is_in_the_glossary() -> None:
    assert set(ledgermq.__all__) - {"__version__", "errors"} - defined() == set()


def test_every_setting_is_in_the_glossary() -> None:
    assert set(NodeSettings.model_fields) - defined() == set()


def test_every_setting_and_no_other_is_in_the_manual() -> None:
    table = re.findall(r"(?m)^\| (`[a-z_`, ]+`) \|.*\|.*\|$", section("docs/OPERATING.md", "Settings"))
    assert {name for cell in table for name in re.findall(r"`(\w+)`", cell)} == set(NodeSettings.model_fields)


@pytest.mark.parametrize("document", ["docs/OPERATING.md", "docs/CONSUMERS.md"])
def test_metrics_in_documents_exist(document: str) -> None:
    named = {text for text in in_backticks(ROOT / document) if re.fullmatch(r"ledgermq_\w+", text)}
    assert len(named) > 10
    assert named - metrics() == set()


def test_every_command_is_in_the_glossary() -> None:
    """The glossary has the noun of each command, for example `ledgermq topic`."""
    nouns = {path.split()[1] for path in commands() if " " in path}
    assert nouns - {identifier.split()[1] for identifier in defined() if identifier.startswith("ledgermq ")} == set()


PLAIN_OPTIONS = {
    "--acked",
    "--address",
    "--all",
    "--as",
    "--base-port",
    "--batches",
    "--before",
    "--before-time",
    "--by",
    "--compression",
    "--config",
    "--consumers",
    "--count",
    "--csv",
    "--decode",
    "--docker",
    "--dry-run",
    "--env",
    "--every",
    "--follow",
    "--force",
    "--format",
    "--from",
    "--if-not-exists",
    "--input",
    "--jobs",
    "--json",
    "--keep-bytes",
    "--ledger",
    "--limit",
    "--linger-ms",
    "--listen",
    "--log-format",
    "--master",
    "--max",
    "--metrics",
    "--metrics-file",
    "--minutes",
    "--no-shrink",
    "--node",
    "--node-env",
    "--nodes",
    "--on-dropped",
    "--out",
    "--pid",
    "--processes",
    "--producers",
    "--recovery-s",
    "--resume",
    "--runs",
    "--schedule",
    "--seconds",
    "--separator",
    "--size",
    "--spark-conf",
    "--targets",
    "--time",
    "--timeout",
    "--to",
    "--transfer",
    "--until-failure",
    "--verify",
    "--version",
    "--wait",
    "--watch",
    "--yes",
}
"""Options in plain English, which need no glossary."""


def test_every_option_is_plain_or_in_the_glossary() -> None:
    for option in sorted(options() - PLAIN_OPTIONS - defined()):
        word = option.removeprefix("--").replace("-", "_")
        assert word in NodeSettings.model_fields, f"{option} is neither plain nor in docs/GLOSSARY.md"
    assert options() >= PLAIN_OPTIONS


def test_every_service_is_in_the_glossary() -> None:
    texts = [path.read_text(encoding="utf-8") for path in (ROOT / "proto").rglob("*.proto")]
    services = {name for text in texts for name in re.findall(r"(?m)^service (\w+)", text)}
    assert len(services) == 12
    assert services - defined() == set()


# ---- paths and tests that the documents name ----

DOCUMENTS = ["README.md", *(str(path.relative_to(ROOT)) for path in sorted((ROOT / "docs").rglob("*.md")))]
NOT_OURS = {"sbin/start-master.sh", "index.html"}
"""Files of Spark, and files that our programs write."""


def without_code(path: Path) -> str:
    return re.sub(r"(?ms)^ *```.*?^ *```", "", path.read_text(encoding="utf-8"))


def in_backticks(path: Path) -> list[str]:
    return re.findall(r"`([^`\n]+)`", without_code(path))


def section(document: str, title: str) -> str:
    text = without_code(ROOT / document)
    start = text.index(f"\n## {title}\n")
    return text[start : text.index("\n## ", start + 1)]


@cache
def endings() -> set[str]:
    """Return every ending of every path of the repository, because documents also write `leader.py` and
    `chaos/sim/test_sim_seeds.py`."""
    paths = [path.relative_to(ROOT).parts for folder in FOLDERS for path in (ROOT / folder).rglob("*")]
    paths += [(path.name,) for path in ROOT.iterdir()]
    return {"/".join(parts[start:]) for parts in paths for start in range(len(parts))}


def looks_like_a_path(text: str) -> bool:
    if re.fullmatch(r"[\w./-]+\.(py|md|proto|toml|yml|sh|txt|html|patch|lock)", text):
        return True
    return re.fullmatch(r"[\w.-]+/[\w./-]*", text) is not None and text.split("/")[0] in FOLDERS


@pytest.mark.parametrize("document", DOCUMENTS)
def test_paths_in_documents_exist(document: str) -> None:
    paths = {text for text in in_backticks(ROOT / document) if looks_like_a_path(text)}
    assert {path for path in paths if path.rstrip("/") not in endings()} - NOT_OURS == set()


@pytest.mark.parametrize("folder", sorted(FOLDERS))
def test_paths_in_code_exist(folder: str) -> None:
    """Every path in backticks in a docstring or comment names a file or folder of this repository."""
    modules = (path for path in (ROOT / folder).rglob("*.py") if path != Path(__file__))
    paths = {text for path in modules for text in re.findall(r"`([^`\n]+)`", path.read_text(encoding="utf-8"))}
    whole = {path for path in paths if looks_like_a_path(path) and path.split("/")[0] in FOLDERS}
    assert {path for path in whole if path.rstrip("/") not in endings()} == set()


def test_paths_are_recognised() -> None:
    for path in ("raft/core/lane.py", "cluster/node/", "leader.txt", "tests/lane", "Lane.md"):
        assert looks_like_a_path(path)
    for text in ("node-1/data", "async", "a/b", "ledger.errors"):
        assert not looks_like_a_path(text)
    assert "lane.py" not in endings()
    assert {"raft/core/leader.py", "leader.py", "raft/core", "core"} <= endings()


@pytest.mark.parametrize("document", DOCUMENTS)
def test_tests_that_documents_name_exist(document: str) -> None:
    named = {text for text in in_backticks(ROOT / document) if re.fullmatch(r"test_\w+", text)}
    assert named - names_of_tests() == set()


@cache
def names_of_tests() -> set[str]:
    files = list((ROOT / "tests").rglob("*.py"))
    functions = {name for path in files for name in re.findall(r"\bdef (test_\w+)", path.read_text(encoding="utf-8"))}
    return functions | {path.stem for path in files}


@pytest.mark.parametrize("document", [*DOCUMENTS, "CHANGELOG.md", "examples/README.md"])
def test_links_in_documents_lead_somewhere(document: str) -> None:
    broken = []
    for link in re.findall(r"\]\(([^)\s]+)\)", without_code(ROOT / document)):
        if "://" in link:
            continue
        file, _, anchor = link.partition("#")
        target = (ROOT / document).parent / file if file else ROOT / document
        if not target.exists() or (anchor and anchor not in anchors(target)):
            broken.append(link)
    assert broken == []


def anchors(path: Path) -> set[str]:
    """Return the anchors that GitHub makes from the headings of a document."""
    titles = re.findall(r"(?m)^#+ (.+)$", without_code(path))
    return {re.sub(r"[^\w\- ]", "", title.lower()).strip().replace(" ", "-") for title in titles}


# ---- names of modules and loggers that stand in strings ----

SPELLED = re.compile(rf"({'|'.join(PACKAGES)})((\.\w+)+)(:\w+)?")
"""A name below one of our packages, as `monkeypatch.setattr`, `python -m` and tables of commands have it."""

NO_NAMES = {
    "cluster.json",
    "cluster.secret",
    "raft.v1.NodeProof",
    "raft.v1.Raft",
    "ledger.jsonl",
    "ledgermq.zip",
    "ledgermq.commands",
    "ledgermq.chaos.directory",
    "ledgermq.chaos.run",
    "ledgermq.cluster",
}
"""Files, the group of entry points, and labels of containers."""


@cache
def sources() -> dict[Path, ast.Module]:
    folders = (*PACKAGES, "tests", "bench", "examples", "deploy")
    files = [path for folder in folders for path in (ROOT / folder).rglob("*.py")]
    return {
        path.relative_to(ROOT): ast.parse(path.read_text(encoding="utf-8"))
        for path in sorted(files)
        if not path.stem.endswith(("_pb2", "_pb2_grpc"))
    }


def strings(tree: ast.AST) -> set[str]:
    return {node.value for node in ast.walk(tree) if isinstance(node, ast.Constant) and isinstance(node.value, str)}


@cache
def loggers() -> set[str]:
    """Return the names of the loggers of our packages."""
    trees = [tree for path, tree in sources().items() if path.parts[0] in PACKAGES]
    calls = [node for tree in trees for node in ast.walk(tree) if isinstance(node, ast.Call)]
    return {
        str(argument.value)
        for call in calls
        if ast.unparse(call.func) == "logging.getLogger"
        for argument in call.args
        if isinstance(argument, ast.Constant)
    }


def resolves(name: str) -> bool:
    """Return whether the name is one of our modules, or a name in one of them."""
    parts = name.replace(":", ".").split(".")
    for length in range(len(parts), 0, -1):
        try:
            found: Any = importlib.import_module(".".join(parts[:length]))
        except ModuleNotFoundError as error:
            if not ".".join(parts).startswith(error.name or "?"):
                raise
            continue
        for part in parts[length:]:
            if not hasattr(found, part):
                return False
            found = getattr(found, part)
        return True
    return False


@pytest.mark.long
def test_names_in_strings_resolve() -> None:
    """A monkeypatch of a name that has moved fails. But a rule or a filter with an old name would pass without
    effect."""
    spelled = {
        (str(path), text)
        for path, tree in sources().items()
        if path != Path(__file__).relative_to(ROOT)
        for text in strings(tree)
        if SPELLED.fullmatch(text) and text not in NO_NAMES | loggers() and not text.endswith(".py")
    }
    assert len(spelled) > 50
    assert sorted((path, text) for path, text in spelled if not resolves(text)) == []


def test_a_name_that_does_not_resolve_is_found() -> None:
    assert resolves("raft.core.Raft")
    assert resolves("chaos.sim.campaign.run:run")
    assert not resolves("raft.lane")
    assert not resolves("raft.core.Raft.lane")


def test_filters_name_loggers_that_exist() -> None:
    """Code and tests that compare the name of a log record must compare it with a logger that exists."""
    compared = {
        (str(path), text)
        for path, tree in sources().items()
        for node in ast.walk(tree)
        if isinstance(node, ast.Compare | ast.Call) and compares_the_logger(node)
        for text in strings(node)
    }
    assert len(compared) >= 4
    assert {each for each in compared if each[1] not in loggers() | {"asyncio", "grpc"}} == set()


def compares_the_logger(node: ast.Compare | ast.Call) -> bool:
    compared = node.left if isinstance(node, ast.Compare) else node.func
    return ast.unparse(compared) in ("record.name", "record.name.startswith")


def test_loggers_that_are_set_up_elsewhere_exist() -> None:
    """Loggers that tests and examples set up must exist."""
    named = {
        str(argument.value)
        for path, tree in sources().items()
        for node in ast.walk(tree)
        if path.parts[0] not in PACKAGES
        and isinstance(node, ast.Call)
        and ast.unparse(node.func) == "logging.getLogger"
        for argument in node.args
        if isinstance(argument, ast.Constant)
    }
    assert named <= loggers() | {"py4j", "ledgermq"}  # the parent of all of ours


def test_filters_inside_the_packages_are_on_loggers_that_log() -> None:
    """A logger with a filter must also log. Otherwise `loggers()` would contain it only because of its filter."""
    used = [
        node.func.value.args[0].value  # type: ignore[attr-defined]
        for path, tree in sources().items()
        for node in ast.walk(tree)
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr in ("addFilter", "setLevel")
        and ast.unparse(node.func.value).startswith("logging.getLogger('ledgermq")
    ]
    logging_modules = [
        ast.unparse(node.value)
        for path, tree in sources().items()
        for node in tree.body
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "log"
    ]
    assert used
    assert all(f"logging.getLogger({name!r})" in logging_modules for name in used)


def test_loggers_in_the_manual_exist() -> None:
    named = {text for text in in_backticks(ROOT / "docs/OPERATING.md") if re.fullmatch(r"ledgermq(\.\w+)+", text)}
    assert len(named) > 8
    assert named <= loggers()
