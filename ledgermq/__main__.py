"""`ledgermq` and `python -m ledgermq`: the command line.

Python has imported the package before this module, so the package has checked already that nothing hides `cluster`.
"""

from cluster.cli import main as run_command_line


def main() -> None:
    """Runs the command line and exits with its status."""
    run_command_line()


if __name__ == "__main__":
    main()
