"""`python -m chaos`: as `ledgermq chaos`, also where nothing is installed."""

import sys

from chaos.live.command import main

sys.exit(main())
