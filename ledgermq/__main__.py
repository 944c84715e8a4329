"""The command line, which `ledgermq` and `python -m ledgermq` start.

Python imports the package before this module. For the command line the package leaves the check of hidden packages to
`main`, so that a user sees one sentence and no traceback.
"""

from __future__ import annotations

import sys

from ledgermq._neighbours import check_neighbours


def main() -> None:
    """Run the command line and exit with its status. If another package hides a package of ledgermq, exit with
    status 1."""
    try:
        check_neighbours()
    except ImportError as error:
        sys.exit(f"Error: {error}")
    from cluster.cli import main as run_command_line

    run_command_line()


if __name__ == "__main__":
    main()
