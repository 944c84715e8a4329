"""`python -m chaos`: as `ledgermq chaos`, also where nothing is installed."""

import sys

from chaos.command import chaos

sys.exit(chaos(standalone_mode=False))
