"""Adds the counters of places to functions of the product, while a seed runs.

A probe is a call that is inserted before a statement. The source of the module is parsed, the call is inserted into the
syntax tree, and the function gets the compiled code of the changed tree. Line numbers stay, so tracebacks are right.
After the run the function has its own code again. Outside of the simulator the product is unchanged, so a place costs
nothing there.
"""

from __future__ import annotations

import ast
import inspect
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from types import CodeType, FunctionType, ModuleType

from chaos.sim.reach.place import Place

# The global name, in each module with places, of the function that counts.
HOOK = "_reached_in_simulation"
Function = ast.FunctionDef | ast.AsyncFunctionDef


class PlaceDoesNotFitError(Exception):
    """The code has no such function or statement any more. The message names the place and what to adapt."""


@dataclass(frozen=True, slots=True)
class ProbedFunction:
    """A function of the product, and its code with and without probes."""

    function: FunctionType
    plain: CodeType
    probed: CodeType


class Probes:
    """The probes of a set of places. Imports the modules of the places."""

    def __init__(self, places: Iterable[Place]) -> None:
        # Places that do not fit the code, so they are not counted. Tests and `make check` fail for them.
        self.misfits: list[PlaceDoesNotFitError] = []
        self._functions: list[ProbedFunction] = []
        self._modules: list[ModuleType] = []
        by_module: defaultdict[str, list[Place]] = defaultdict(list)
        for place in places:
            by_module[place.module].append(place)
        for name, of_module in by_module.items():
            self._prepare(import_module(name), of_module)

    @contextmanager
    def active(self, note: Callable[[str], None]) -> Iterator[None]:
        """Call `note` with the name of each place that is reached, until the context ends."""
        for module in self._modules:
            setattr(module, HOOK, note)
        for each in self._functions:
            each.function.__code__ = each.probed
        try:
            yield
        finally:
            for each in self._functions:
                each.function.__code__ = each.plain
            for module in self._modules:
                delattr(module, HOOK)

    def _prepare(self, module: ModuleType, places: list[Place]) -> None:
        assert module.__file__ is not None
        tree, fitting = probed_tree(Path(module.__file__).read_text(encoding="utf-8"), places, self.misfits)
        code = compile(tree, module.__file__, "exec", dont_inherit=True)
        self._modules.append(module)
        for qualname in dict.fromkeys(place.qualname for place in fitting):
            function = _function(module, qualname)
            probed = None if function is None else _same_code(code, function.__code__)
            if function is None or probed is None:
                self.misfits.append(
                    PlaceDoesNotFitError(f"{module.__name__}:{qualname} is not the function in its file")
                )
            else:
                self._functions.append(ProbedFunction(function, function.__code__, probed))


def probed_tree(
    source: str, places: Sequence[Place], misfits: list[PlaceDoesNotFitError]
) -> tuple[ast.Module, list[Place]]:
    """Return the syntax tree of a module with the probes of its places, and the places that fit. Add an error to
    `misfits` for each place that does not fit."""
    tree, lines, fitting = ast.parse(source), source.splitlines(), []
    found = [(place, target_of(tree, lines, place)) for place in places]  # before the tree changes
    for place, target in found:
        if target is None:
            misfits.append(PlaceDoesNotFitError(_misfit(place)))
        else:
            body, statement = target
            body.insert(body.index(statement), _probe(place, statement))
            fitting.append(place)
    return ast.fix_missing_locations(tree), fitting


def _misfit(place: Place) -> str:
    where = f"exactly one statement of it begins with {place.statement!r}" if place.statement else "it must exist"
    return f"place {place.name!r} does not fit {place.function} any more: {where}. Adapt the place"


def _probe(place: Place, statement: ast.stmt) -> ast.stmt:
    call = f"{HOOK}({place.name!r})"
    (probe,) = ast.parse(f"if {place.when}: {call}" if place.when else call).body
    for node in ast.walk(probe):
        node.lineno = node.end_lineno = statement.lineno  # type: ignore[attr-defined]
        node.col_offset = node.end_col_offset = statement.col_offset  # type: ignore[attr-defined]
    return probe


def target_of(tree: ast.Module, lines: list[str], place: Place) -> tuple[list[ast.stmt], ast.stmt] | None:
    """Return the statement before which the place is, and the block that contains the statement."""
    function = _definition(tree, place.qualname)
    if function is None:
        return None
    if not place.statement:
        first = function.body[0]
        has_docstring = isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant)
        return function.body, function.body[1 if has_docstring and len(function.body) > 1 else 0]
    found = [
        (body, statement)
        for body in _blocks(function)
        for statement in body
        if lines[statement.lineno - 1][statement.col_offset :].startswith(place.statement)
    ]
    return found[0] if len(found) == 1 else None


def _definition(tree: ast.Module, qualname: str) -> Function | None:
    body: list[ast.stmt] = tree.body
    found: ast.stmt | None = None
    for name in qualname.split("."):
        found = next((each for each in body if getattr(each, "name", None) == name), None)
        body = getattr(found, "body", [])
    return found if isinstance(found, Function) else None


def _blocks(function: Function) -> Iterator[list[ast.stmt]]:
    """Yield each list of statements in the function. An `elif` begins no statement: a probe before it would change
    which branches are tried."""
    for node in ast.walk(function):
        for name in ("body", "orelse", "finalbody"):
            block = getattr(node, name, None)
            if isinstance(block, list) and not _is_elif(node, name, block):
                yield block


def _is_elif(node: ast.AST, name: str, block: list[ast.stmt]) -> bool:
    is_chain = isinstance(node, ast.If) and name == "orelse" and len(block) == 1 and isinstance(block[0], ast.If)
    return is_chain and block[0].col_offset == node.col_offset  # type: ignore[attr-defined]


def _function(module: ModuleType, qualname: str) -> FunctionType | None:
    """Return the function itself, also if it is a property or a static method."""
    found: object = module
    for name in qualname.split("."):
        found = inspect.getattr_static(found, name, None)
        if isinstance(found, property):
            found = found.fget
        elif isinstance(found, staticmethod | classmethod):
            found = found.__func__
    found = inspect.unwrap(found) if callable(found) else None
    return found if isinstance(found, FunctionType) else None


def _same_code(within: CodeType, plain: CodeType) -> CodeType | None:
    """Return the code of the same function, in the code of a module with probes."""
    for each in within.co_consts:
        if isinstance(each, CodeType):
            same = (each.co_qualname, each.co_firstlineno) == (plain.co_qualname, plain.co_firstlineno)
            if same and each.co_filename == plain.co_filename and each.co_freevars == plain.co_freevars:
                return each
            if (inner := _same_code(each, plain)) is not None:
                return inner
    return None
