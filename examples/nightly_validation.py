"""An operator's nightly validation: every replica of a cluster, judged while it runs, with a status for cron.

Asks the cluster for its nodes, reads their logs over HTTP, and says what it found; ends with 1 where replicas do not
agree, and with 2 where it cannot be known. `python nightly_validation.py` at 03:00, and mail what it writes.
"""

from __future__ import annotations

import asyncio
import os
import sys

from ledger.validation.judging.plain_engine import PlainEngine
from ledger.validation.report.summary import as_text
from ledger.validation.validate import validate
from ledgermq import AsyncAdmin

BOOTSTRAP = os.environ.get("LEDGERMQ_BOOTSTRAP", "127.0.0.1:9871")


async def http_addresses() -> list[str]:
    """Of all nodes, as the nodes themselves say."""
    async with AsyncAdmin(BOOTSTRAP) as admin:
        return [f"http://{node.http_address}" for node in await admin.cluster()]


def main() -> int:
    addresses = asyncio.run(http_addresses())
    report = validate(addresses, PlainEngine())
    print(as_text(report))
    return report.status


if __name__ == "__main__":
    sys.exit(main())
