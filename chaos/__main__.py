"""`python -m chaos`: as `ledgermq chaos`, also where nothing is installed."""

import sys

import click

from chaos.command import chaos
from cluster.cli import INTERRUPTED


def main() -> int:
    """The exit status, as `ledgermq` has it."""
    try:
        status: int = chaos(standalone_mode=False)
    except click.ClickException as error:
        error.show()
        return error.exit_code
    except (click.Abort, KeyboardInterrupt):
        return INTERRUPTED
    return status


sys.exit(main())
