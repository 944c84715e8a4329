"""`python -m chaos` runs the command `ledgermq chaos`, even if ledgermq is not installed as a package."""

import sys

from chaos.live.command import main

sys.exit(main())
