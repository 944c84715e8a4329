"""Makes the first administrator of a new cluster, from the settings of a node.

The leader of shard 0 proposes the first administrator once in the life of a cluster. Later the settings have no effect:
a file that is left behind cannot bring back an administrator who was removed.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
from collections.abc import Callable

from ledger.access.password import make_verifier
from ledger.broker.access.users import check_level
from ledger.broker.replicas import Replicas
from ledger.errors import InvalidArgumentError, LedgerError
from ledger.state.commands import BeginAccess

log = logging.getLogger("ledgermq.access")

RETRY_S = 0.25
SALT_KEY_BYTES = 32


async def make_first_administrator(
    replicas: Replicas, name: str, password: str, random_bytes: Callable[[int], bytes] = secrets.token_bytes
) -> None:
    """Propose the first administrator while this node leads shard 0. Return when the cluster has one, or if the
    password is not allowed."""
    verifier = None
    while True:
        await asyncio.sleep(RETRY_S)
        first = replicas.first
        if first is None:
            continue
        if first.state.access.has_begun:
            return
        if not first.knows_the_end:
            continue
        try:
            verifier = verifier or make_verifier(password, random_bytes)
        except InvalidArgumentError as error:
            log.error("the cluster gets no first administrator from this node: %s", error)
            return
        try:
            check_level(first)
            result = await first.propose_checked(BeginAccess(name, verifier, random_bytes(SALT_KEY_BYTES)))
            if not isinstance(result, LedgerError):
                log.info("user %s is the first administrator of this cluster", name)
        except LedgerError as error:
            log.debug("the first administrator is still to be made: %s", error)
