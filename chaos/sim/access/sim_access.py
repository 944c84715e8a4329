"""Runs users and rights in a simulated cluster: the administrator, the guests, the faults, and the checks at the end.

    admin      the first administrator, of the settings of all nodes; it is removed in the middle of the run
    operator   the other administrator, and the user of the simulated operators
    load       the user of producers, consumers and members; it keeps its rights, and gets new passwords
    guest 0    loses and regains single rights, or is removed and added again
    guest 1    gets new passwords that it does not know at first
    lender     delegates tokens to a client that goes on with a token after it has expired

Guests send and read, and in runs with transactions and shared groups they take part in these too.

Each act of the administrator is repeated until the cluster has confirmed it. Its random choices have their own stream,
so runs without authentication are as they were.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial

from chaos.sim.access.access_faults import AccessFaults
from chaos.sim.access.access_truth import AccessTruth
from chaos.sim.access.access_watch import AccessWatch
from chaos.sim.access.administrator import AGAIN_S, TIMEOUT_MS, SimAdministrator
from chaos.sim.access.credentials import Credential, SimCredentials
from chaos.sim.access.guests import Guest
from chaos.sim.campaign.swarm import Options
from chaos.sim.engine.faults import FaultEvent
from chaos.sim.engine.loop import SimLoop
from chaos.sim.engine.network import Network
from chaos.sim.stack.node import FIRST_CLIENT, StackNode
from chaos.sim.stack.workload import ClientProcess, Workload
from ledger.client.admin.admin import AsyncAdmin
from ledger.errors import AuthenticationError, LedgerError

ADMINISTRATOR = FIRST_CLIENT + 90
PROBE = FIRST_CLIENT + 91
LENDER = FIRST_CLIENT + 92
FAULTS = FIRST_CLIENT + 93
FIRST_GUEST = FIRST_CLIENT + 20
FIRST_GUEST_PROGRAM, FIRST_GUEST_SHARER = FIRST_CLIENT + 94, FIRST_CLIENT + 97
FIRST = Credential("admin", "the first password")
OPERATOR = Credential("operator", "the operator's password")
GUESTS = ("guest-0", "guest-1", "lender")
LOAD_RULES = (("all", "topic:*"), ("all", "group:*"), ("describe", "cluster"))
GUEST_RULES = (("publish", "topic:t*"), ("subscribe", "topic:t*"))
SEES = ("describe", "topic:*")
# Producer groups and shared groups. A guest always has this right, and it is part of each token.
JOINS = ("subscribe", "group:*")
# Time between two acts of the administrator, and how long a guest goes on without knowing a change, in seconds.
EVERY_S = 5.0
UNKNOWING_S = (3.0, 20.0)
TOKEN_MS = (4_000, 20_000)


class SimAccess:
    """Users and rights of one run. `process` makes the process of a client with these credentials."""

    def __init__(
        self,
        options: Options,
        loop: SimLoop,
        network: Network,
        workload: Workload,
        watch: AccessWatch,
        truth: AccessTruth,
        load: SimCredentials,
        process: Callable[[int, SimCredentials], ClientProcess],
        happened: Counter[str],
    ) -> None:
        self._loop = loop
        self._workload = workload
        self._watch = watch
        self._truth = truth
        self._load = load
        self._happened = happened
        self._random = options.chance("access")
        # A run without faults only has users; nobody loses a right.
        self._acts = options.has_faults
        self._administrator = SimCredentials(FIRST)
        self._admin = SimAdministrator(process(ADMINISTRATOR, self._administrator), workload.bootstrap, self._random)
        # The lender itself. The guest of its name has tokens only, so that an expired token is all that it has.
        self._lends = Credential(GUESTS[2], f"the password of {GUESTS[2]}")
        self._lender = self._asked_by(process(LENDER, SimCredentials(self._lends)))
        self._probe = SimCredentials(load.now)
        self._prober = self._asked_by(process(PROBE, self._probe))
        self._over = False
        # Whether the administrator gives the load a new password at the moment.
        self._rotates_load = False
        self._number = 0
        # Why the end is not reached yet.
        self._unproven = ["the present password of the load was not tried", "its old password was not tried"]
        self.guests = [self._make_guest(options, place, name, process) for place, name in enumerate(GUESTS)]
        self._faults = AccessFaults(
            loop,
            network,
            SimAdministrator(
                process(FAULTS, SimCredentials(OPERATOR)), workload.bootstrap, options.chance("access faults")
            ),
            OPERATOR.user,
            workload.bootstrap,
            self.guests[:2],
            (GUEST_RULES, (SEES,)),
            happened,
            truth,
        )

    def _asked_by(self, process: ClientProcess) -> SimAdministrator:
        return SimAdministrator(process, self._workload.bootstrap, self._random)

    def _make_guest(
        self, options: Options, place: int, name: str, process: Callable[[int, SimCredentials], ClientProcess]
    ) -> Guest:
        random = options.chance(f"guest {place}")
        has_token = name == self._lends.user
        own = Credential(name, token="no token yet") if has_token else Credential(name, f"the password of {name}")
        credentials = SimCredentials(own)
        number = FIRST_GUEST + 2 * place
        guest = Guest(
            name,
            credentials,
            random.randint(1, options.nodes),
            (process(number, credentials), process(number + 1, credentials)),
            self._workload,
            (random, options.chance(f"guest routes {place}"), options.chance(f"guest reads {place}")),
            lambda: self._over,
        )
        if options.transaction_programs:
            guest.programs.append(self._workload.new_program(process(FIRST_GUEST_PROGRAM + place, credentials)))
        if options.shared_members:
            guest.programs.append(self._workload.new_sharer(process(FIRST_GUEST_SHARER + place, credentials)))
        return guest

    # -- called by the world

    def start(self) -> None:
        life = self._admin.process.life
        life.deliver(life.create_task, self._run())
        for guest in self.guests:
            guest.start()

    def end(self) -> None:
        """Stop the administrator's acts, and try the last passwords of the load.

        The lender gets a password. With a token that has ended it would not hear of a leader, and its sends could wait
        longer than a run: for room in its buffer and then for an acknowledgement, up to the delivery timeout each."""
        self._over = self._faults.over = True
        self.guests[2].proves_with(self._lends)
        life = self._prober.process.life
        life.deliver(life.create_task, self._prove_end())

    def unsettled(self) -> list[str]:
        """Return a phrase for each condition that must still be met before the run has ended."""
        # A guest that never had a right has not even started.
        sending = [guest for guest in self.guests if guest.producer.has_sent and not guest.producer.done]
        guests = [f"{guest.name} has open sends" for guest in sending]
        guests += [f"{guest.name} has transactions" for guest in self.guests if guest.has_transactions]
        return guests + self._unproven

    def figures(self) -> dict[str, int]:
        judged = self._watch.judged
        return {
            f"judged_{right}".replace(" ", "_"): judged[right] for right in ("publish", "subscribe", "subscribe group")
        }

    def fire(self, event: FaultEvent, nodes: Sequence[StackNode]) -> bool:
        """Carry out the fault event if its kind concerns users and rights. Return True if the event had an effect."""
        return self._faults.fire(event, nodes)

    # -- the administrator

    async def _run(self) -> None:
        await self._begin()
        if not self._acts:
            return
        replaces_at = self._loop.time() + self._random.uniform(10, 60)
        while not self._over:
            if self._administrator.now == FIRST and self._loop.time() > replaces_at:
                await self._replace_first_administrator()
            for guest in self.guests:
                if guest.name in self._faults.withheld:
                    await self._admin.revoke(guest.name, GUEST_RULES)
            await self._act()
            await asyncio.sleep(self._random.expovariate(1 / EVERY_S))

    async def _act(self) -> None:
        """Do one of the acts of an administrator, unless the revocations before it waited for a leader until the
        end."""
        if not self._over:
            acts = (self._toggle, self._toggle, self._remove, self._rotate, self._rotate_load, self._lend)
            await self._random.choice(acts)()

    async def _begin(self) -> None:
        """Add the users of the run. They have their passwords from the start."""
        await self._admin.add(OPERATOR, (("all", "*"),))
        await self._admin.add(self._load.now, LOAD_RULES)
        for guest in self.guests:
            own = self._lends if guest.name == self._lends.user else guest.credentials.now
            await self._admin.add(own, (*GUEST_RULES, SEES, JOINS))

    async def _replace_first_administrator(self) -> None:
        """Go on as the operator, and remove the first administrator. All nodes still have it in their settings."""
        self._administrator.replace(OPERATOR)
        await self._admin.done(partial(AsyncAdmin.remove_user, name=FIRST.user))
        self._happened["first administrator removed"] += 1

    async def _toggle(self) -> None:
        """Take one right from a guest, and give it back later."""
        guest, rule = self.guests[0], self._random.choice(GUEST_RULES)
        await self._admin.revoke(guest.name, (rule,))
        self._happened["right revoked"] += 1
        await asyncio.sleep(self._random.uniform(*UNKNOWING_S))
        await self._restore(guest)

    async def _remove(self) -> None:
        """Remove a guest, and add it again later with the same password."""
        guest = self.guests[0]
        await self._admin.done(partial(AsyncAdmin.remove_user, name=guest.name))
        self._happened["user removed"] += 1
        await asyncio.sleep(self._random.uniform(*UNKNOWING_S))
        await self._restore(guest)

    async def _restore(self, guest: Guest) -> None:
        if guest.name in self._faults.withheld:
            await self._admin.add(guest.credentials.now, (SEES, JOINS))
        else:
            await self._admin.add(guest.credentials.now, (*GUEST_RULES, SEES, JOINS))

    async def _rotate(self) -> None:
        """Give a guest a new password. The guest goes on with the old one for some time."""
        guest = self.guests[1]
        new = self._new_password(guest.name)
        await self._admin.done(partial(AsyncAdmin.rotate_user, name=guest.name, password=new.password))
        self._happened["password rotated"] += 1
        await asyncio.sleep(self._random.uniform(*UNKNOWING_S))
        guest.proves_with(new)
        await self._restore(guest)

    async def _rotate_load(self) -> None:
        """Give the load a new password, before or after the cluster has it."""
        new, at_first = self._new_password(self._load.now.user), self._random.random() < 0.5
        self._rotates_load = True
        if at_first:
            self._load.replace(new)
        await self._admin.done(partial(AsyncAdmin.rotate_user, name=new.user, password=new.password))
        self._load.replace(new)
        self._rotates_load = False
        self._happened["password of the load rotated"] += 1

    def _new_password(self, user: str) -> Credential:
        self._number += 1
        return Credential(user, f"password {self._number} of {user}")

    async def _lend(self) -> None:
        """Give a client a delegated token, with which it goes on after the token has expired."""
        lender = self.guests[2]
        ttl_ms = self._random.randint(*TOKEN_MS)
        lender_client, tokens = self._lender, list[str]()

        async def delegate() -> None:
            with contextlib.suppress(LedgerError):
                async with lender_client.asking() as admin:
                    tokens.append((await admin.delegate_token((*GUEST_RULES, JOINS), ttl_ms)).token)

        life = lender_client.process.life
        life.deliver(life.create_task, delegate())
        await asyncio.sleep(TIMEOUT_MS / 1000)
        if tokens:
            lender.proves_with(Credential(lender.name, token=tokens[-1]))
            self._happened["token lent"] += 1
            await asyncio.sleep(ttl_ms / 1000 + self._random.uniform(*UNKNOWING_S))

    # -- the end

    async def _prove_end(self) -> None:
        """The present password of the load must work, and the one before it must not. A change of the password that is
        in progress is waited for."""
        while self._rotates_load:  # noqa: ASYNC110 - the administrator's process ends it
            await asyncio.sleep(AGAIN_S)
        for credential, works in ((self._load.now, True), (_before(self._load), False)):
            while credential is not None and await self._is_accepted(credential) is not works:  # noqa: ASYNC110
                await asyncio.sleep(AGAIN_S)
            self._unproven.pop(0)

    async def _is_accepted(self, credential: Credential) -> bool | None:
        """Return whether the cluster accepts the credential, or None if this is not known."""
        self._probe.replace(credential)
        try:
            async with self._prober.asking() as admin:
                await admin.list_topics()
        except AuthenticationError:
            return False
        except LedgerError:
            return None
        return True


def _before(credentials: SimCredentials) -> Credential | None:
    """Return the credential before the present one, or None if there was no other."""
    return credentials.ever[-2] if len(credentials.ever) > 1 else None
