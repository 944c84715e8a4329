"""Waits until nodes are ready to serve: `python ready.py HOST:PORT,... [SECONDS [CA]]`, with the nodes' HTTP ports.
CA is the file of the authority that signed the nodes' certificates, if the nodes use TLS.

A node is ready when it is a member, knows a leader, and has caught up. If a node is not ready after SECONDS (default
60), the program prints the reasons and exits with status 1.
"""

from __future__ import annotations

import json
import ssl
import sys
import time
from urllib.error import HTTPError
from urllib.request import urlopen

_ANSWER_S = 2.0
_AGAIN_S = 0.2


def why_not(address: str, tls: ssl.SSLContext | None) -> str:
    """Return the reason why the node with the HTTP port `address` is not ready, or "" if it is ready."""
    try:
        scheme = "http" if tls is None else "https"
        with urlopen(f"{scheme}://{address}/readyz", timeout=_ANSWER_S, context=tls):
            return ""
    except HTTPError as error:
        try:
            return str(json.load(error)["reason"])
        except (ValueError, KeyError):
            return f"it answers {error.code}"
    except OSError as error:
        return f"it does not answer ({error})"


def wait(addresses: list[str], within_s: float, tls: ssl.SSLContext | None) -> dict[str, str]:
    """Wait until all nodes are ready, at most `within_s` seconds. Return the nodes that are still not ready after
    the wait, each with the reason."""
    deadline = time.monotonic() + within_s
    while reasons := {address: reason for address in addresses if (reason := why_not(address, tls))}:
        if time.monotonic() >= deadline:
            break
        time.sleep(_AGAIN_S)
    return reasons


def main(addresses: str, within_s: str = "60", ca: str = "") -> int:
    tls = ssl.create_default_context(cafile=ca) if ca else None
    reasons = wait(addresses.split(","), float(within_s), tls)
    for address, reason in reasons.items():
        print(f"the node at {address} is not ready: {reason}", file=sys.stderr)
    return 1 if reasons else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
