"""A script for an operator's cron job: it validates every replica of a running cluster, and its exit status is the
result.

The script asks the cluster for its nodes, reads their logs over HTTP, and prints a report. The exit status is 0 if the
validation found no violation, 1 if it found a violation, and 2 if a replica could not be validated.

The command `ledgermq validate http://HOST:PORT ...` does the same as this script.
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
