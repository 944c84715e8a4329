"""`ledgermq` and `python -m ledgermq`: the command line.

Python has imported the package before this module, so the package has checked already that nothing hides `cluster`.
"""

import logging

from cluster.cli import main as run_command_line


def main() -> None:
    """Runs the command line and exits with its status."""
    # The commands show warnings on standard error. `ledgermq server run` replaces this by its own set-up.
    logging.basicConfig(level=logging.WARNING, format="%(message)s")
    run_command_line()


if __name__ == "__main__":
    main()
