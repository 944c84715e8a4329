"""Tests the import rules and the maps of the packages by reading the sources, and that generated code is up to date."""

from __future__ import annotations

import ast
import functools
import importlib.util
import re
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

import ledgermq

ROOT = Path(__file__).resolve().parent.parent
PARTS = ["store", "raft", "ledger", "cluster", "chaos", "ledgermq"]
"""Each may import those before it, and none after it."""

PURE_STANDARD_MODULES = {"__future__", "bisect", "collections", "dataclasses", "enum", "itertools", "typing"}
"""What the core may use: no clock, chance, I/O, logging or concurrency."""


def sources(*folders: str) -> list[Path]:
    return sorted(path for folder in folders for path in (ROOT / folder).rglob("*.py"))


@functools.cache
def imported(path: Path) -> tuple[str, ...]:
    """Return the full names of all modules that a file imports, also in functions and under TYPE_CHECKING."""
    return tuple(_imported(path))


def _imported(path: Path) -> Iterator[str]:
    package = path.relative_to(ROOT).parent.parts
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        match node:
            case ast.Import(names=names):
                yield from (name.name for name in names)
            case ast.ImportFrom(module=module, names=names, level=level):
                parts = [*package[: len(package) - level + 1], *([module] if module else [])] if level else [module]
                base = ".".join(part for part in parts if part)
                yield from (f"{base}.{name.name}" for name in names)


def importers(name: str, *folders: str) -> set[str]:
    """Return the files below the folders that import this module or package, or a name in it."""
    return {
        str(path.relative_to(ROOT))
        for path in sources(*folders)
        if any(each == name or each.startswith(f"{name}.") for each in imported(path))
    }


def test_every_part_that_exists_is_looked_at() -> None:
    for part in ("store", "raft", "raft/core", "ledger", "ledger/client", "cluster", "chaos", "chaos/sim", "ledgermq"):
        assert sources(part), f"{part} has no sources"
    assert "raft.core.Raft" in set(imported(ROOT / "cluster/node/replica/builder.py"))  # and imports are found


@pytest.mark.parametrize("part", PARTS)
def test_imports_point_one_way(part: str) -> None:
    for later in PARTS[PARTS.index(part) + 1 :]:
        assert importers(later, part) == set(), f"{part} knows {later}"


def test_deprecated_names_of_ledger_are_unused() -> None:
    """Our packages import from the defining modules; tests, examples and measurements import from `ledgermq`."""
    old = {f"ledger.{name}" for name in ledgermq.__all__ if name != "errors"}
    for path in sources(*PARTS, "tests", "examples", "bench", "deploy"):
        assert not old & set(imported(path)), f"{path.relative_to(ROOT)} imports deprecated names of `ledger`"


def test_no_files_import_each_other() -> None:
    """Imports in functions and under TYPE_CHECKING count."""
    graph = import_graph()
    assert len(graph) > 300
    assert ROOT / "raft/core/raft.py" in graph[ROOT / "raft/driver.py"] | graph[ROOT / "raft/core/__init__.py"]
    assert [sorted(str(path.relative_to(ROOT)) for path in cycle) for cycle in cycles(graph)] == []


def test_cycles_are_found() -> None:
    a, b, c, d, e = (Path(name) for name in "abcde")
    graph = {a: {b}, b: {c}, c: {a, d}, d: {e}, e: set()}
    assert [set(cycle) for cycle in cycles(graph)] == [{a, b, c}]
    assert [set(cycle) for cycle in cycles({**graph, e: {d}})] == [{d, e}, {a, b, c}]
    assert cycles({**graph, c: {d}}) == []


def import_graph() -> dict[Path, set[Path]]:
    """Return, for each of our files, those of our files that it imports. The packages around an imported module are
    left out: Python runs them first, but the importing file uses no name of them."""
    files = sources(*PARTS)
    return {
        path: {found for name in imported(path) if (found := module_file(name)) and found != path} for path in files
    }


def module_file(name: str) -> Path | None:
    """Return our file that is this module, or that defines this name, or None for other libraries."""
    parts = name.split(".")
    if parts[0] not in PARTS:
        return None
    for length in range(len(parts), 0, -1):
        path = ROOT.joinpath(*parts[:length])
        for file in (path.with_suffix(".py"), path / "__init__.py"):
            if file.exists():
                return file
    return None


def cycles(graph: Mapping[Path, set[Path]]) -> list[list[Path]]:
    """Return the strongly connected components that have more than one file (Tarjan's algorithm)."""
    order: dict[Path, int] = {}
    lowest: dict[Path, int] = {}
    stack: list[Path] = []
    found: list[list[Path]] = []

    def visit(path: Path) -> None:
        order[path] = lowest[path] = len(order)
        stack.append(path)
        for imports in sorted(graph[path]):
            if imports not in order:
                visit(imports)
                lowest[path] = min(lowest[path], lowest[imports])
            elif imports in stack:
                lowest[path] = min(lowest[path], order[imports])
        if lowest[path] == order[path]:
            component = stack[stack.index(path) :]
            del stack[stack.index(path) :]
            if len(component) > 1:
                found.append(component)

    for path in sorted(graph):
        if path not in order:
            visit(path)
    return found


def test_clients_are_light() -> None:
    """The clients import neither Raft, nor the store, nor the libraries of a node."""
    for heavy in ("raft", "store", "ledger.broker", "ledger.filters", "ledger.state", "uvloop", "aiohttp", "pydantic"):
        assert importers(heavy, "ledger/client", "ledger/batch") == set()


def test_what_the_client_imports_in_the_end_is_light_too() -> None:
    """The test follows the imports through our own modules, beginning with `import ledgermq`."""
    seen: set[Path] = set()
    waiting = [ROOT / "ledgermq/__init__.py"]
    while waiting:
        path = waiting.pop()
        if path not in seen:
            seen.add(path)
            waiting += [found for name in imported(path) for found in module_files(name)]
    parts = {path.relative_to(ROOT).parts[0] for path in seen}
    assert parts == {"ledger", "ledgermq"}
    assert not any("broker" in path.parts or "state" in path.parts for path in seen)
    assert len(seen) > 20


def module_files(name: str) -> list[Path]:
    """Return those of our files that Python runs to import this name."""
    found = []
    parts = name.split(".")
    for length in range(1, len(parts) + 1):
        path = ROOT.joinpath(*parts[:length])
        found += [each for each in (path / "__init__.py", path.with_suffix(".py")) if each.exists()]
    return found if parts[0] in PARTS else []


RIM_OF_RAFT = (
    "raft/transport/control_streams.py",
    "raft/transport/dialing.py",
    "raft/transport/peer_calls.py",
    "raft/transport/proof_slots.py",
    "raft/transport/node_proof.py",
    "raft/transport/admission.py",
    "raft/transport/grpc_transport.py",
    "raft/transport/streams.py",
)
LIBRARIES: dict[str, tuple[str, ...]] = {
    "pyspark": ("ledger/spark/", "pyspark_ledgermq"),
    "pyarrow": ("ledger/spark/", "cluster/console/message_files.py"),
    "matplotlib": ("ledger/report/figures.py", "ledger/validation/report/plots.py", "chaos/live/report/plots.py"),
    "jinja2": ("ledger/report/page.py", "cluster/console/page.py"),
    "pygal": ("cluster/console/charts.py",),
    "lark": ("ledger/filters/",),
    "docker": ("chaos/live/hosts/", "cluster/local/container", "cluster/local/engine.py"),
    "grpc": (
        *RIM_OF_RAFT,
        "raft/v1/",
        "ledger/broker/",
        "ledger/client/",
        "ledger/nameserver/",
        "ledger/rocketmq/",
        "ledger/spark/",
        "ledger/v1/",
        "cluster/",
        "chaos/",
    ),
    "asyncio": (*RIM_OF_RAFT, "ledger/", "cluster/", "chaos/"),
    "aiohttp": (
        "cluster/console/",
        "cluster/node/http/http_port.py",
        "cluster/node/http/deadline.py",
        "cluster/node/http/downloads.py",
        "cluster/node/http/http_rights.py",
        "cluster/node/http/segment_routes.py",
        "cluster/node/http/file_sender.py",
        "chaos/",
    ),
    "click": ("cluster/cli/", "chaos/live/command.py", "chaos/sim/campaign/command.py"),
    "rich": ("cluster/cli/", "cluster/demo/", "chaos/live/progress.py", "chaos/sim/campaign/progress.py"),
}


@pytest.mark.parametrize("library", LIBRARIES)
def test_libraries_stay_where_they_belong(library: str) -> None:
    strays = {file for file in importers(library, *PARTS) if not file.startswith(LIBRARIES[library])}
    assert strays == set()


def test_the_core_is_pure() -> None:
    for path in sources("raft/core"):
        for name in imported(path):
            own = name.startswith("raft.core")
            assert own or name.split(".")[0] in PURE_STANDARD_MODULES, f"{path.relative_to(ROOT)} imports {name}"


def test_the_store_knows_neither_the_network_nor_the_loop() -> None:
    for name in ("grpc", "asyncio", "socket", "google.protobuf"):
        assert importers(name, "store") == set()


def test_only_the_disk_opens_files_in_the_store() -> None:
    """All code of the store reads and writes bytes through the disk interface, which also has an in-memory
    implementation."""
    for path in sources("store"):
        if path.name in ("disk.py", "memory_disk.py"):
            continue
        assert not {"os", "io", "mmap", "fcntl", "shutil", "tempfile"} & set(imported(path)), path.name
        assert not any(opens_a_file(node) for node in ast.walk(ast.parse(path.read_text()))), path.name


def opens_a_file(node: ast.AST) -> bool:
    match node:
        case ast.Call(func=ast.Name(id="open")):
            return True
        case _:
            return False


def test_generated_types_stop_at_the_rim_of_the_broker() -> None:
    """In the broker, only its gRPC layer imports generated types. All other modules use dataclasses, and do not
    import the gRPC layer."""
    modules = [f"ledger.v1.{path.stem}" for path in sources("ledger/v1") if path.stem != "__init__"]
    assert len(modules) > 10
    users = {file for module in modules for file in importers(module, "ledger/broker")}
    assert "ledger/broker/rpc/broker.py" in users
    assert {file for file in users if not file.startswith("ledger/broker/rpc/")} == set()
    assert {file for file in importers("ledger.broker.rpc", "ledger") if "/rpc/" not in file} == set()


def test_proto_is_no_package() -> None:
    """The folder proto is no Python package, because another library installs a package called `proto`."""
    assert not list((ROOT / "proto").rglob("*.py"))


def test_generated_modules_are_fresh(tmp_path: Path) -> None:
    """The generated modules equal the output of `make proto`."""
    generate(tmp_path)
    fresh = {path.relative_to(tmp_path): path.read_bytes() for path in tmp_path.rglob("*.py*")}
    assert len(fresh) >= 9
    for name, content in fresh.items():
        assert (ROOT / name).exists(), f"{name} is missing"
        assert (ROOT / name).read_bytes() == content, f"{name} is stale"
    ours = {path.relative_to(ROOT) for part in PARTS for path in (ROOT / part).rglob("*_pb2*.py*")}
    assert {name for name in ours if name.suffix in (".py", ".pyi")} == set(fresh), "some have no source any more"


def generate(output: Path) -> None:
    spec = importlib.util.spec_from_file_location("generate_proto", ROOT / "scripts/generate_proto.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    module.generate(output)


def test_all_loggers_are_children_of_ledgermq() -> None:
    names = {name for path in sources(*PARTS) for name in loggers(path)}
    assert len(names) > 20
    assert {name for name in names if name != "ledgermq" and not name.startswith("ledgermq.")} == set()


def loggers(path: Path) -> Iterator[str]:
    """The names in calls of `getLogger`; "" where the name is no literal or is left out."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        match node:
            case ast.Call(func=ast.Attribute(attr="getLogger"), args=[ast.Constant(value=str() as name)]):
                yield name
            case ast.Call(func=ast.Attribute(attr="getLogger")) if path != ROOT / "cluster/node/process/logs.py":
                yield ""


def test_the_map_of_a_package_names_all_its_modules() -> None:
    """A docstring that names at least three modules of its package is a map. A reader relies on it to be complete."""
    packages = [path.parent for path in sources(*PARTS[:-1], "bench") if path.name == "__init__.py"]
    maps = [package for package in packages if len(named_modules(package)) >= 3]
    assert len(maps) > 90
    missing = [
        f"{name} is missing: add a line for it to the docstring of {package.relative_to(ROOT)}"
        for package in maps
        for name in sorted(modules_of(package) - named_modules(package))
    ]
    assert not missing, "\n".join(missing)


def modules_of(package: Path) -> set[str]:
    """Return the modules (`name.py`) and subpackages (`name/`) of a package, without generated ones."""
    modules = {path.name for path in package.glob("*.py") if not path.stem.endswith(("_pb2", "_pb2_grpc"))}
    folders = {path.parent for path in package.glob("*/__init__.py")}
    subpackages = {f"{folder.name}/" for folder in folders if not any(folder.glob("*_pb2.py"))}
    return modules - {"__init__.py", "__main__.py"} | subpackages


def named_modules(package: Path) -> set[str]:
    """Return those of a package's modules and subpackages that its docstring names."""
    docstring = ast.get_docstring(ast.parse((package / "__init__.py").read_text(encoding="utf-8"))) or ""
    return {name for name in modules_of(package) if re.search(rf"(?<![\w/]){re.escape(name)}", docstring)}
