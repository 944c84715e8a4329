"""Checks that Python finds the packages `store`, `raft`, `ledger`, `cluster` and `chaos` of ledgermq, and not packages
of others with the same names.

`store`, `raft` and `cluster` are common names. A package `store` in a user's working directory often comes before the
installed packages on Python's path, and another distribution may install a package of the same name. Without the check
of this module, the import would fail later, with a message that does not name the cause.

If a package is missing, or if Python finds another package with its name, a program that imports `ledgermq` gets an
ImportError. The command line prints the message of this ImportError without a traceback.
"""

from __future__ import annotations

import importlib.util
import os
import sys
from importlib.machinery import ModuleSpec

NEIGHBOURS = ("store", "raft", "ledger", "cluster", "chaos")


def check_neighbours() -> None:
    """Raise ImportError if Python does not find one of the packages of ledgermq, or if Python finds another package
    with its name.

    The message of the ImportError names the expected path, and, if Python finds another package, the path of this
    other package.
    """
    folder = os.path.dirname(os.path.dirname(os.path.realpath(__file__)))
    for name in NEIGHBOURS:
        ours = os.path.join(folder, name)
        found = _location(name)
        if found is None:
            raise ImportError(
                f"ledgermq needs its package {name} at {ours}, but Python finds no package {name}.", name=name
            )
        if found != ours:
            raise ImportError(
                f"{found} hides the package {name} of ledgermq at {ours}: rename or move {found}, or remove its folder "
                "from Python's path.",
                name=name,
                path=found,
            )


def is_command_line() -> bool:
    """Return True if this process runs the command `ledgermq` or `python -m ledgermq`.

    While Python imports the package of a module that is started with `-m`, `sys.argv[0]` is "-m".
    """
    program = sys.argv[0]
    if program == "-m":
        return "ledgermq" in sys.orig_argv
    return os.path.splitext(os.path.basename(program))[0] == "ledgermq"


def _location(name: str) -> str | None:
    """Return the folder of the package that Python finds under this name. If Python finds a plain module, return
    its file; if it finds nothing, return None."""
    spec = _spec(name)
    if spec is None:
        return None
    if spec.origin is None:  # a folder without __init__.py
        folders = list(spec.submodule_search_locations or [])
        return os.path.realpath(folders[0]) if folders else None
    path = os.path.realpath(spec.origin)
    return os.path.dirname(path) if spec.submodule_search_locations is not None else path


def _spec(name: str) -> ModuleSpec | None:
    try:
        return importlib.util.find_spec(name)
    except ValueError:  # a program has put a module without a spec into sys.modules
        file = getattr(sys.modules[name], "__file__", None)
        return None if file is None else importlib.util.spec_from_file_location(name, file)
