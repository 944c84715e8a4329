"""The entry point of the commands `ledgermq` and `python -m ledgermq`.

Python imports the package `ledgermq` before this module. On the command line, only `main` checks whether another
package hides a package of ledgermq, so that a user sees one sentence instead of a traceback.
"""

from __future__ import annotations

import sys

from ledgermq._neighbours import check_neighbours


def main() -> None:
    """Run the command line and exit with its status. If a package of ledgermq is missing, or hidden by another
    package, print an error and exit with status 1."""
    try:
        check_neighbours()
    except ImportError as error:
        sys.exit(f"Error: {error}")
    from cluster.cli import main as run_command_line

    run_command_line()


if __name__ == "__main__":
    main()
