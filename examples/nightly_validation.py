"""An operator's nightly validation: it checks every replica of a running cluster, and its exit status suits cron.

The script asks the cluster for its nodes, reads their logs over HTTP, and prints a report. The exit status is 0 if all
replicas agree, 1 if something is wrong, and 2 if something could not be judged.

The command line does the same: `ledgermq validate http://HOST:PORT ...`.
"""

from __future__ import annotations

import asyncio
import os
import sys

from ledgermq import AsyncAdmin
from ledgermq.validation import PlainEngine, as_text, validate

BOOTSTRAP = os.environ.get("LEDGERMQ_BOOTSTRAP", "127.0.0.1:9871")


async def http_addresses() -> list[str]:
    """Return the HTTP addresses that the nodes report."""
    async with AsyncAdmin(BOOTSTRAP) as admin:
        return [f"http://{node.http_address}" for node in await admin.cluster()]


def main() -> int:
    addresses = asyncio.run(http_addresses())
    report = validate(addresses, PlainEngine())
    print(as_text(report))
    return report.status


if __name__ == "__main__":
    sys.exit(main())
