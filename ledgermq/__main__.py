"""The entry point of the commands `ledgermq` and `python -m ledgermq`.

Python imports the package `ledgermq` before this module. On the command line, only `main` checks whether another
package hides a package of ledgermq, so that a user sees one sentence instead of a traceback.
"""

from __future__ import annotations

import sys
from importlib import import_module

from ledgermq._neighbours import check_neighbours

# What the extra `cli` installs.
COMMAND_LINE_LIBRARIES = ("click", "rich")


def main() -> None:
    """Run the command line and exit with its status. If a package of ledgermq is missing or hidden by another
    package, or if the extra `cli` is not installed, print an error and exit with status 1."""
    try:
        check_neighbours()
    except ImportError as error:
        sys.exit(f"Error: {error}")
    for library in COMMAND_LINE_LIBRARIES:
        try:
            import_module(library)
        except ModuleNotFoundError:
            sys.exit(
                f"Error: the command line needs the package {library}: run pip install 'ledgermq[cli]', or "
                "'ledgermq[server]' for a node too."
            )
    from cluster.cli import main as run_command_line

    run_command_line()


if __name__ == "__main__":
    main()
