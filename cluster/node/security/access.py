"""Connects what decides about callers on one node: sessions, rights, users, and the checks at its ports."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from functools import partial
from typing import TYPE_CHECKING

from cluster.node.runtime import Runtime
from cluster.node.security.certificate_proof import proven_uris
from cluster.node.security.certificates import CertificateWatch
from cluster.node.security.forwarded_callers import NodeCallers
from cluster.node.security.rights_guard import RightsGuard
from cluster.node.security.secret_keys import SecretKeyError, SecretKeyFile
from cluster.node.settings import NodeSettings, SettingsError
from ledger.access.password import make_verifier
from ledger.access.rules import Action, Kind, Resource
from ledger.broker.access.audit import AuditLog
from ledger.broker.access.authorizer import Authorizer
from ledger.broker.access.callers import LOCAL_OPERATOR, Caller
from ledger.broker.access.first_administrator import make_first_administrator
from ledger.broker.access.forwarding import Forwarding
from ledger.broker.access.proofs import prove_token
from ledger.broker.access.rocketmq_secrets import RocketmqSecrets, SecretKeys
from ledger.broker.access.sessions import Sessions
from ledger.broker.access.users import Users
from ledger.broker.replicas import Replicas
from ledger.broker.rpc.security import ProvenUris, SecurityService
from ledger.errors import InvalidArgumentError
from ledger.topics import TOPICS_SHARD
from store import Disk
from store.directory.shard_marks import has_log

if TYPE_CHECKING:
    from cluster.node.http.http_rights import HttpRights


class NodeAccess:
    """Without the setting `authentication`, `authorizer` is None and every caller may do everything."""

    def __init__(
        self,
        settings: NodeSettings,
        replicas: Replicas,
        runtime: Runtime,
        proofs: NodeCallers,
        watch: CertificateWatch | None,
        password: str,
    ) -> None:
        """`proofs` has the nodes that have proven themselves. `watch` has the certificates; None without TLS.
        `password` is the password of the first administrator, or ""."""
        random_bytes = runtime.random_bytes
        authorizer = Authorizer(replicas, now_ms=runtime.now_ms, monotonic_ms=runtime.monotonic_ms)
        sessions = Sessions(runtime.monotonic_ms, random_bytes=random_bytes)
        users = Users(replicas, random_bytes)
        # The secrets by which RocketMQ's clients sign.
        self.rocketmq = RocketmqSecrets(settings.cluster, users, _secret_keys(settings), has_tls=watch is not None)
        self._settings = settings
        self._replicas = replicas
        self._password = password
        self._random_bytes = random_bytes
        self.sessions = sessions
        self.service = SecurityService(
            settings.cluster,
            authorizer,
            sessions,
            users,
            runtime.now_ms,
            self.rocketmq,
            _proven_uris(watch),
            random_bytes,
            is_needed=settings.authentication,
        )
        self.authorizer = authorizer if settings.authentication else None
        # Names the users for whom this node calls other nodes. Without `authentication`, nodes ask nobody for a name.
        self.forwarding = Forwarding(replicas, authorizer) if settings.authentication else None
        self.audit = AuditLog(runtime.monotonic_s, runtime.now_ms)
        guard = partial(
            RightsGuard,
            replicas,
            authorizer,
            sessions,
            proofs,
            monotonic_s=runtime.monotonic_s,
            audit=self.audit,
        )
        self.guard = guard(authentication=settings.authentication)
        # The check of the local socket, whose callers are administrators.
        self.local_guard = guard(authentication=True, everybody=LOCAL_OPERATOR)
        # How the console proves its users; None without `authentication`.
        self.console = ConsoleUsers(authorizer, runtime.now_ms) if settings.authentication else None
        self.http_rights = _http_rights(settings, authorizer, runtime, self.audit)

    def tasks(self) -> list[tuple[str, Coroutine[None, None, None]]]:
        """Return the tasks that run as long as the node, with their names."""
        found: list[tuple[str, Coroutine[None, None, None]]] = []
        if self.authorizer is not None:
            found.append(("rights", self.authorizer.run()))
        if self._password:
            name = self._settings.first_administrator
            work = make_first_administrator(self._replicas, name, self._password, self._random_bytes)
            found.append(("first administrator", work))
        return found


class ConsoleUsers:
    """Implements `cluster.console.logins.ConsoleAccess` by the users that this node knows."""

    def __init__(self, authorizer: Authorizer, now_ms: Callable[[], int]) -> None:
        self._authorizer = authorizer
        self._now_ms = now_ms

    def prove(self, token: str) -> Caller:
        caller = prove_token(token, self._authorizer.fresh_access(), self._now_ms())
        self._authorizer.check_caller(caller)
        return caller

    def may(self, caller: Caller, action: Action, resource: Resource) -> bool:
        return self._authorizer.may(caller, action, resource)

    def may_somewhere(self, caller: Caller, action: Action, kind: Kind) -> bool:
        self._authorizer.check_caller(caller)
        rules = self._authorizer.access.rules(caller.user)
        return any(not rule.deny and rule.covers(action) and rule.resource.startswith((kind, "*")) for rule in rules)


def _http_rights(
    settings: NodeSettings, authorizer: Authorizer, runtime: Runtime, audit: AuditLog
) -> HttpRights | None:
    if not (settings.http and settings.authentication):
        return None
    from cluster.node.http.http_rights import HttpRights  # here, because a node without HTTP needs no aiohttp

    return HttpRights(authorizer, runtime.now_ms, audit)


def _proven_uris(watch: CertificateWatch | None) -> ProvenUris | None:
    """Return the function that judges client certificates, or None without TLS."""
    if watch is None:
        return None
    return lambda certificates, signature, content: proven_uris(watch.current.ca, certificates, signature, content)


def _secret_keys(settings: NodeSettings) -> SecretKeys | None:
    """Raises SettingsError."""
    if (path := settings.secrets_key_file) is None:
        return None
    try:
        return SecretKeyFile(path)
    except SecretKeyError as error:
        raise SettingsError(str(error)) from error


def first_password(settings: NodeSettings, disk: Disk) -> str:
    """Return the password of the first administrator, or "" if the settings have none. A node that joins
    or has a log of shard 0 starts also without the file, because its cluster has been formed. Raises SettingsError."""
    is_first_start = not settings.join and not has_log(disk, settings.data / f"shard-{TOPICS_SHARD}")
    if (path := settings.first_administrator_password_file) is not None:
        try:
            password, name = path.read_text(encoding="utf-8").strip(), f"`first_administrator_password_file`: {path}"
        except (OSError, UnicodeDecodeError) as error:
            if isinstance(error, FileNotFoundError) and not is_first_start:
                return ""
            reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
            raise SettingsError(f"`first_administrator_password_file`: {path} cannot be read: {reason}") from error
    elif (secret := settings.first_administrator_password) is not None:
        password, name = secret.get_secret_value(), "`first_administrator_password`"
    else:
        return ""
    if is_first_start:
        try:
            make_verifier(password)
        except InvalidArgumentError as error:
            raise SettingsError(f"{name}: {error.message}") from error
    return password
