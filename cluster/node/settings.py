"""Reads the settings of one node from a TOML file and the environment, and checks all of them in this module.

`NodeSettings` is one frozen object, made before the node opens any file. If settings are wrong, SettingsError lists
all faults, each in one sentence that names the setting. A variable ``LEDGERMQ_<KEY>`` in the environment takes
precedence over the file:

    node = 1
    data = "/var/lib/ledgermq"
    listen = "10.0.0.1:9871"
    [peers]                       LEDGERMQ_PEERS="1=10.0.0.1:9871,2=10.0.0.2:9871,3=10.0.0.3:9871"
    1 = "10.0.0.1:9871"
    2 = "10.0.0.2:9871"
    3 = "10.0.0.3:9871"
"""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, BeforeValidator, Field, SecretStr, ValidationError, model_validator
from pydantic_settings import (
    BaseSettings,
    EnvSettingsSource,
    NoDecode,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
)

from cluster.address import check_address, is_loopback, split_address
from cluster.node.formation import allowed_nodes
from ledger.access.rules import validate_user_name
from ledger.consumer_groups import validate_room
from ledger.errors import InvalidArgumentError
from ledger.retries import DELAYS_S
from ledger.timed import MAX_DELAY_DAYS
from store import KERNEL_BOOT_ID, ReadAhead, WriteMode, Writing

__all__ = ["NodeSettings", "SettingsError", "split_address"]

ENVIRONMENT_PREFIX = "LEDGERMQ_"
MIB = 1 << 20
_TRUE = ("1", "true", "t", "yes", "y", "on")  # as pydantic reads them
# The room in an entry beside its largest message: 1 MiB for key, tag and headers (the limit of producers), and 64 KiB
# for the headers of the batch and the entry.
_BESIDE_THE_MESSAGE_BYTES = MIB + (64 << 10)
# Settings of version 0.1 -> their present names.
_RENAMED = {"groups": "shards"}


class SettingsError(Exception):
    """`SettingsError` says that the settings cannot be used. The error message has one line for each fault, and
    each line names the faulty setting."""


def _check_optional_address(address: str) -> str:
    return address and check_address(address)


def _split_peers(value: object) -> object:
    """Turn the text "1=host:port,2=host:port" of an environment variable into a mapping; return other values as they
    are."""
    if not isinstance(value, str):
        return value
    pairs = [part.partition("=") for part in value.split(",") if part.strip()]
    if any(not equals for _, equals, _ in pairs):
        raise ValueError(f'{value!r} is not of the form "1=host:port,2=host:port"')
    ids = [node.strip() for node, _, _ in pairs]
    if len(set(ids)) < len(ids):
        raise ValueError(f"{value!r} names a node twice")
    return {node.strip(): address.strip() for node, _, address in pairs}


def _own_address(valid: dict[str, Any]) -> str:
    # `_agree` refuses a node that is missing from its `peers`, with a message of its own.
    peers: dict[int, str] = valid.get("peers", {})
    return peers.get(valid.get("node", 0)) or str(valid.get("listen", "127.0.0.1:9871"))


def _split_list(value: object) -> object:
    """Turn the text "10,30,60" of an environment variable into a list; return other values as they are."""
    return [part.strip() for part in value.split(",") if part.strip()] if isinstance(value, str) else value


def _check_room(room: str) -> str:
    try:
        validate_room(room)
    except InvalidArgumentError as error:
        raise ValueError(str(error)) from error
    return room


def _check_endpoint(endpoint: str) -> str:
    if endpoint and not re.fullmatch(r"https?://[^/\s]+:[0-9]{1,5}", endpoint):
        raise ValueError(f'{endpoint!r} is no address of a collector: give one such as "http://127.0.0.1:4317"')
    return endpoint


def _check_user(name: str) -> str:
    try:
        validate_user_name(name)
    except InvalidArgumentError as error:
        raise ValueError(str(error)) from error
    return name


Delay = Annotated[float, Field(gt=0, le=366 * 86_400, allow_inf_nan=False)]
NodeId = Annotated[int, Field(ge=1, le=0xFFFF_FFFF)]
Address = Annotated[str, AfterValidator(check_address)]
AllowedNodes = Annotated[str, AfterValidator(allowed_nodes.check_pattern)]
OptionalAddress = Annotated[str, AfterValidator(_check_optional_address)]


class NodeSettings(BaseSettings):
    """All settings of one node. A setting whose name ends in `_ms` is a time in ms. A setting whose name ends in
    `_bytes` is a size in bytes."""

    model_config = SettingsConfigDict(
        env_prefix=ENVIRONMENT_PREFIX, frozen=True, extra="forbid", validate_default=True, hide_input_in_errors=True
    )

    # -- identity and data

    # The number of this node. Each node of a cluster needs a different number.
    node: NodeId
    # The name of the cluster. All nodes of a cluster need the same name, and a node refuses nodes with another name.
    cluster: str = Field(default="dev", min_length=1, max_length=127)
    # The data directory of this node.
    data: Path
    # The directory of the indexes, for example on a cheaper disk. By default (None) the indexes are under `data`. A
    # node can rebuild its indexes from the log at any time.
    index_data: Path | None = None
    # With `join = true`, a node with an empty data directory waits until `ledgermq cluster add-node` adds it to a
    # running cluster. The setting has no effect on a node that has data.
    join: bool = False
    # The voters of the first start, this node included: node number -> address at which the other nodes reach it. With
    # `join = true`, `peers` may be empty, because the node learns the addresses from the cluster. An address in `peers`
    # takes precedence over the address that the cluster knows.
    peers: Annotated[dict[NodeId, Address], NoDecode, BeforeValidator(_split_peers)]

    # -- addresses

    # The address on which this node serves gRPC to clients and to other nodes.
    listen: Address = "127.0.0.1:9871"
    # The address that clients are given for this node. The default is the node's own address in `peers`, because
    # `listen` may be 0.0.0.0; a node that `peers` does not name advertises `listen`.
    advertised: Address = Field(default_factory=_own_address)
    # The hosts at which this node accepts new nodes: names, which may have *, and ranges of IP addresses. By default
    # all names, and the loopback and private ranges.
    allowed_nodes: Annotated[tuple[AllowedNodes, ...], NoDecode, BeforeValidator(_split_list)] = allowed_nodes.DEFAULT
    # Addresses of nodes for clients outside the nodes' network, for example on the host of containers: node number ->
    # address. A client that starts from one of these addresses uses them for all nodes. Clients collect the outside
    # addresses that all nodes report, so a node that is added later can name its own.
    outside: Annotated[dict[NodeId, Address], NoDecode, BeforeValidator(_split_peers)] = Field(default_factory=dict)
    # The name servers to which this node reports its routes, for clients that do not know the nodes. By default none.
    nameservers: Annotated[tuple[Address, ...], NoDecode, BeforeValidator(_split_list)] = ()
    # The machine room of this node, for consumer groups that assign queues to consumers in the same room. By default
    # the node has no room.
    room: Annotated[str, AfterValidator(_check_room)] = ""
    # The address of the HTTP port for metrics, health and segments. An empty address turns the HTTP port off.
    http: OptionalAddress = "127.0.0.1:9872"
    # Whether the HTTP port serves the segments of the log. Every program that reaches the port can then read all
    # messages.
    serve_segments: bool = True

    # -- RocketMQ 5's clients (docs/ROCKETMQ.md)

    # The address on which this node serves RocketMQ clients in plaintext. By default this port is off.
    rocketmq: OptionalAddress = ""
    # The address on which this node serves RocketMQ clients with TLS. It needs `tls_certificate`. By default off.
    rocketmq_tls: OptionalAddress = ""
    # The host at which RocketMQ clients outside the nodes' network reach these ports of this node, such as the host of
    # containers. Clients that start from there are given this host. The host in `advertised` is for all others.
    rocketmq_outside_host: str = ""
    # How many hours ahead RocketMQ clients may set a delivery time.
    rocketmq_max_delay_hours: float = Field(default=24.0, gt=0, le=MAX_DELAY_DAYS * 24, allow_inf_nan=False)

    # The offsets from UTC, in hours, of RocketMQ clients that sign their local time as if it were UTC, as several of
    # the official clients do. Each offset is a time at which a copied signature is accepted once more.
    rocketmq_utc_offsets_hours: Annotated[
        tuple[Annotated[float, Field(ge=-14, le=14, allow_inf_nan=False)], ...], NoDecode, BeforeValidator(_split_list)
    ] = Field(default=(0.0,), min_length=1, max_length=16)

    # The console, web pages on the HTTP port (docs/CONSOLE.md): "login" for users of the cluster, "open" for everybody
    # on this machine if the node has no authentication, or "off".
    console: Literal["login", "open", "off"] = "login"

    # -- who may do what

    # The certificate of this node, its key, and the authorities that sign the certificates of nodes and users, all PEM.
    # With these files, the node serves gRPC and HTTP with TLS, and proves itself to other nodes by its certificate. The
    # files are read again when they change.
    tls_certificate: Path | None = None
    tls_key: Path | None = None
    tls_ca: Path | None = None
    # Without TLS: the file of the cluster secret, by which nodes prove to each other that they are of one cluster.
    # `ledgermq cluster init` writes it. The file is read again when it changes.
    cluster_secret_file: Path | None = None
    # The file of the key that encrypts the users' RocketMQ secrets in the log, the same on all nodes. `ledgermq cluster
    # init` writes it. Without it, users cannot have RocketMQ secrets. The file is read again when it changes.
    secrets_key_file: Path | None = None
    # Whether the node may listen on an address other than loopback without TLS and authentication. Every program that
    # reaches the ports can then read, write and remove everything.
    insecure: bool = False
    # Whether clients must prove who they are, and need rights (docs/SECURITY.md). Without authentication, every program
    # that reaches the node's ports may do everything.
    authentication: bool = False
    # The first administrator of a new cluster. The leader of shard 0 adds this user once in the life of the cluster;
    # later the settings have no effect.
    first_administrator: Annotated[str, AfterValidator(_check_user)] = "admin"
    # The file with the password of the first administrator, on one line. By default no administrator is made.
    first_administrator_password_file: Path | None = None
    # The same password, for the environment of a container. Prefer the file: other programs can see an environment.
    first_administrator_password: SecretStr | None = None

    # -- writing

    # When an appended entry counts as held: `async`, once the page cache has it; `sync`, once the disk has it. All
    # nodes of a cluster need the same value.
    flush: Literal["async", "sync"] = "async"
    # How often, in ms, the node checks whether a log needs a flush that no request waits for.
    flush_interval_ms: int = Field(default=500, ge=1, le=60_000)
    # How many pages of 4 KiB must have been written to a log since its last flush, so that the check flushes the log.
    flush_pages: int = Field(default=4, ge=0)
    # The time in ms after which the check flushes a log that has any unflushed bytes.
    flush_thorough_ms: int = Field(default=10_000, ge=1, le=600_000)

    # How appends reach the files: `direct` uses pwrite, `mapped` copies into a memory mapping, and `staged` copies into
    # a buffer of this process, which is written to the file later.
    write: WriteMode = "direct"
    # With `write = "staged"`, the largest number of buffers of one log. Each buffer has the size of a segment.
    staged_segments: int = Field(default=3, ge=1, le=16)
    # With `write = "staged"`, how often, in ms, the buffers are written to the files.
    write_out_interval_ms: int = Field(default=200, ge=1, le=60_000)
    # New sends are refused (retriable) while an append, or a flush that the sends would wait for, takes longer than
    # this time in ms. 0 never refuses.
    busy_ms: int = Field(default=1000, ge=0, le=600_000)
    # Whether the node writes to the pages of the next segment in advance, so that appends find them in memory. See
    # docs/STORE.md before a change. Off by default.
    warm: bool = False
    # Whether the node locks the segment in use into memory. See docs/STORE.md before a change. Off by default.
    lock_memory: bool = False
    # The advice to the kernel on reading segments in advance. See docs/STORE.md before a change.
    read_ahead: ReadAhead = "normal"

    # -- shards

    # The smallest number of shards; the setting of shard 0's leader counts. Shard 0 has a replica on every node, and
    # every other shard has three replicas. Shards are never removed, and `ledgermq cluster add-shard` adds shards.
    shards: int = Field(default=1, ge=1, le=64)
    # The size of a segment file in bytes. The first configuration entry of a shard fixes it for that shard.
    segment_bytes: int = Field(default=1024 * MIB, ge=MIB, le=4096 * MIB, multiple_of=4096)
    # The largest message in bytes. The first configuration entry of a shard fixes it for that shard.
    max_message_bytes: int = Field(default=4 * MIB, ge=1024, le=48 * MIB)

    # A file whose content changes when the machine restarts. After a restart of the machine, unflushed writes may be
    # lost. The default is the kernel's boot id; a test that cuts the power of a single node sets another file.
    boot_id_file: Path = KERNEL_BOOT_ID

    # -- retention: the settings of a shard's leader count, so give all nodes the same values. Retention removes whole
    # segments, the same on all replicas, but never the segment in use and never a part of the log that has a hold.

    # Entries that are older than this number of hours are removed. 0 sets no limit on the age.
    retention_hours: float = Field(default=72.0, ge=0, le=1_000_000, allow_inf_nan=False)
    # The oldest entries are removed while a shard's log is larger than this number of bytes. 0 sets no limit.
    retention_bytes: int = Field(default=0, ge=0)
    # The hour of the day (UTC) in which old segments are removed; on a full disk they are removed at any hour. By
    # default (None) old segments are removed at any hour.
    cleaning_hour: int | None = Field(default=None, ge=0, le=23)
    # If the log's disk is used to at least this ratio, segments that are too old are removed at any hour. 0 is off.
    disk_clean_ratio: float = Field(default=0.75, ge=0, le=1)
    # If the log's disk is used to at least this ratio, the oldest segments are removed whatever their age. 0 is off.
    disk_force_ratio: float = Field(default=0.85, ge=0, le=1)
    # If the log's disk is used to at least this ratio, new sends are refused. 0 is off.
    disk_refuse_ratio: float = Field(default=0.90, ge=0, le=1)
    # How often, in ms, the node checks the disk and applies the retention limits.
    retention_check_ms: int = Field(default=10_000, ge=10, le=3_600_000)

    # -- the placement of replicas: the setting of the leader of shard 0 counts, so give all nodes the same value.

    # Replicas on a node that was silent for so many ms are made anew on another node. 0: never.
    replace_after_ms: int = Field(default=600_000, ge=0, le=7 * 86_400_000)

    # How many bytes of its logs a node sends to learners in a second, as the leader of shards, beside what it appends
    # meanwhile. 0: no limit.
    catch_up_bytes_per_s: int = Field(default=50_000_000, ge=0)

    # -- messages with delivery times: the settings of a shard's leader count, so give all nodes the same values.

    # How many days ahead a delivery time may be. Clients refuse more than 40 days themselves.
    timed_max_days: float = Field(default=MAX_DELAY_DAYS, gt=0, le=MAX_DELAY_DAYS, allow_inf_nan=False)
    # How many bytes of messages may wait for their delivery times in one shard. 0: a quarter of `retention_bytes`, or
    # of the shard's part of the disk if `retention_bytes` is 0 too.
    timed_waiting_bytes: int = Field(default=0, ge=0)

    # -- transactions: the settings of a shard's leader count, so give all nodes the same values.

    # If a transaction has not ended after this time, in seconds, the leader asks a producer of its group for the
    # outcome.
    transaction_check_after_s: float = Field(default=6.0, ge=0.1, le=86_400, allow_inf_nan=False)
    # How often a transaction is asked for, in seconds.
    transaction_check_every_s: float = Field(default=30.0, ge=0.1, le=86_400, allow_inf_nan=False)
    # After this number of answers "unknown", the messages go to the dead letters of the producer group.
    transaction_checks: int = Field(default=15, ge=1, le=1_000)
    # After this number of hours, the messages go there in any case. Waiting messages stay in the log as long as this.
    transaction_max_hours: float = Field(default=72.0, gt=0, le=720, allow_inf_nan=False)

    # -- quotas: a client is identified by its `client_id`, or by its host if it has no `client_id` (docs/LIMITS.md).

    # How many bytes one client may send to this node in a second. 0 sets no limit.
    produce_quota_bytes_per_s: int = Field(default=0, ge=0)
    # How many messages one client may send to this node in a second. 0 sets no limit.
    produce_quota_messages_per_s: int = Field(default=0, ge=0)
    # How many bytes one client may fetch from this node in a second. 0 sets no limit.
    fetch_quota_bytes_per_s: int = Field(default=0, ge=0)
    # How many messages one client may fetch from this node in a second. 0 sets no limit.
    fetch_quota_messages_per_s: int = Field(default=0, ge=0)

    # -- slow requests (docs/OPERATING.md)

    # A request of a client that takes this time in ms is recorded with the parts of its time: `ledgermq debug slow`.
    slow_request_ms: float = Field(default=100.0, gt=0, le=3_600_000, allow_inf_nan=False)

    # The OTLP collector that gets spans of produce requests whose producers trace, such as "http://127.0.0.1:4317".
    # Needs the extra `otel-node`. By default the node makes no spans.
    otel_endpoint: Annotated[str, AfterValidator(_check_endpoint)] = ""

    # -- callers that hold connections (docs/LIMITS.md). A host is an IPv4 address, or a /64 network of IPv6.

    # The largest number of open gRPC connections of clients and nodes, and of those of one host.
    max_connections: int = Field(default=4_000, ge=16, le=1_000_000)
    max_connections_per_host: int = Field(default=1_000, ge=8, le=1_000_000)
    # The bytes of incomplete requests of all gRPC connections. Beyond, connections with the most bytes are ended.
    max_unread_bytes: int = Field(default=128 * MIB, ge=16 * MIB)
    # The same limits of connections for the HTTP port.
    max_http_connections: int = Field(default=1_000, ge=4, le=1_000_000)
    max_http_connections_per_host: int = Field(default=250, ge=2, le=1_000_000)
    # An HTTP connection on which no complete request arrives for this time in ms is closed.
    http_idle_ms: int = Field(default=20_000, ge=100, le=3_600_000)
    # The largest number of downloads of segments and snapshots at the same time, and of those of one user (without
    # authentication: of one host).
    max_downloads: int = Field(default=16, ge=1, le=256)
    max_downloads_per_caller: int = Field(default=8, ge=1, le=256)
    # A download that is slower than this rate, over 30 s, is ended.
    min_download_bytes_per_s: int = Field(default=64 << 10, ge=1, le=1 << 30)

    # How many seconds a message waits before it is delivered again to a consumer group that failed to consume it. The
    # first value is the wait before the second delivery, the second value before the third delivery, and so on; the
    # last value also counts for all later deliveries. Give all nodes the same values.
    retry_delays_s: Annotated[tuple[Delay, ...], NoDecode, BeforeValidator(_split_list)] = Field(
        default=DELAYS_S, min_length=1, max_length=64
    )

    # -- Raft's clock and leaders

    # The length of one tick of Raft's clock in ms.
    tick_ms: int = Field(default=50, ge=1, le=10_000)
    # A leader sends a heartbeat each time this number of ticks has passed.
    heartbeat_ticks: int = Field(default=2, ge=1)
    # A follower that hears no leader for this number of ticks (up to twice as many, at random) starts an election.
    election_ticks: int = Field(default=10, ge=2)
    # The number of the node that is to lead every shard. A leader on another node hands over to it when it can. 0
    # prefers no node.
    preferred_leader: int = Field(default=0, ge=0, le=0xFFFF_FFFF)
    # Whether the leaders of several shards are spread evenly over the nodes. Without effect if `preferred_leader` is
    # set.
    spread_leaders: bool = True

    # -- log output

    # The format of the node's own log on standard error: lines of text, or one JSON object a line.
    log_format: Literal["text", "json"] = "text"
    # The lowest level of the log lines that are written.
    log_level: Literal["debug", "info", "warning", "error"] = "info"

    def told(self) -> str:
        """Return the settings as JSON, without secrets."""
        return self.model_dump_json(exclude={"first_administrator_password"}, indent=2)

    @property
    def largest_entry_bytes(self) -> int:
        """Return the size in bytes, header included, of the largest entry that a node accepts. `segment_bytes` is
        never less than this size."""
        return self.max_message_bytes + _BESIDE_THE_MESSAGE_BYTES

    @property
    def addresses(self) -> dict[int, str]:
        """Return the addresses at which clients reach each node, as far as the settings name them. A node with
        `join = true` leaves out its own address, because the operator's `add-node` command gives this address. If
        `peers` or `advertised` gives the address of this node, the result includes it."""
        told = not self.join or self.node in self.peers or "advertised" in self.model_fields_set
        return {**self.peers, self.node: self.advertised} if told else dict(self.peers)

    def rocketmq_address(self, listen: str) -> str:
        """Return the address at which RocketMQ clients reach a port of this node, or "" if the port is off."""
        if not listen:
            return ""
        host, port = self.advertised.rpartition(":")[0], split_address(listen)[1]
        return f"{host}:{port}"

    @property
    def writing(self) -> Writing:
        return Writing(self.write, self.staged_segments, self.warm, self.lock_memory, self.read_ahead)

    @model_validator(mode="before")
    @classmethod
    def _need_no_peers_to_join(cls, given: dict[str, Any]) -> dict[str, Any]:
        joins = str(given.get("join", "")).lower() in _TRUE
        return {"peers": {}, **given} if joins else given

    @model_validator(mode="after")
    def _agree(self) -> Self:
        if not self.peers and not self.join:
            raise ValueError("`peers` is empty: name every node of the first start, this node included")
        if self.node not in self.peers and not self.join:
            known = ", ".join(str(node) for node in sorted(self.peers))
            raise ValueError(f"`peers` names the nodes {known}, but not this node, {self.node}: add it")
        if len(set(self.peers.values())) < len(self.peers):
            raise ValueError("`peers` gives two nodes the same address")
        if len(set(self.outside.values())) < len(self.outside):
            raise ValueError("`outside` gives two nodes the same address")
        for node, address in self.outside.items():
            for peer, inside in self.peers.items():
                if address == inside and node != peer:
                    raise ValueError(f"`outside` gives node {node} the address that node {peer} has among `peers`")
        self._agree_on_security()
        if self.index_data == self.data:
            raise ValueError(
                "`index_data` is the same directory as `data`: leave `index_data` out, and the indexes are under `data`"
            )
        if self.flush_thorough_ms < self.flush_interval_ms:
            raise ValueError(
                f"`flush_thorough_ms` ({self.flush_thorough_ms}) must not be less than `flush_interval_ms` "
                f"({self.flush_interval_ms})"
            )
        if self.election_ticks <= self.heartbeat_ticks:
            raise ValueError(
                f"`election_ticks` ({self.election_ticks}) must be larger than `heartbeat_ticks` "
                f"({self.heartbeat_ticks}); otherwise followers start elections before a heartbeat can reach them"
            )
        ratios = (self.disk_clean_ratio, self.disk_force_ratio, self.disk_refuse_ratio)
        used = [ratio for ratio in ratios if ratio]
        if used != sorted(used):
            raise ValueError(
                "`disk_clean_ratio`, `disk_force_ratio` and `disk_refuse_ratio` must rise in this order (a ratio of 0 "
                f"is off and does not count); they are {', '.join(f'{ratio:g}' for ratio in ratios)}"
            )
        for total in ("max_connections", "max_http_connections", "max_downloads"):
            of_one = f"{total}_per_{'caller' if total == 'max_downloads' else 'host'}"
            if getattr(self, of_one) > getattr(self, total):
                raise ValueError(
                    f"`{of_one}` ({getattr(self, of_one):,}) must not be more than `{total}` ({getattr(self, total):,})"
                )
        if self.segment_bytes < self.largest_entry_bytes:
            raise ValueError(
                f"`segment_bytes` ({self.segment_bytes:,}) must be at least the size of the largest entry, which is "
                f"{self.largest_entry_bytes:,} bytes with `max_message_bytes` {self.max_message_bytes:,}: raise "
                "`segment_bytes` or lower `max_message_bytes`"
            )
        return self

    def _agree_on_security(self) -> None:
        tls = {"tls_certificate": self.tls_certificate, "tls_key": self.tls_key, "tls_ca": self.tls_ca}
        missing = [name for name, path in tls.items() if path is None]
        if len(missing) not in (0, len(tls)):
            raise ValueError(f"`{missing[0]}` is missing: give `tls_certificate`, `tls_key` and `tls_ca` together")
        if self.authentication and missing and self.cluster_secret_file is None:
            raise ValueError(
                "`authentication` needs nodes that prove themselves: set `tls_certificate`, `tls_key` and `tls_ca`, or "
                "`cluster_secret_file`"
            )
        if self.rocketmq_tls and missing:
            raise ValueError(
                "`rocketmq_tls` needs a certificate: set `tls_certificate`, `tls_key` and `tls_ca`, or use `rocketmq`"
            )
        if self.rocketmq and not self.insecure and not is_loopback(self.rocketmq):
            raise ValueError(
                f"`rocketmq` is {self.rocketmq}, which other machines can reach, and the port has no TLS: use "
                "`rocketmq_tls`, or write `insecure = true`"
            )
        if self.insecure or (self.authentication and not missing):
            return
        for name, address in (("listen", self.listen), ("http", self.http), ("rocketmq_tls", self.rocketmq_tls)):
            if address and not is_loopback(address):
                raise ValueError(
                    f"`{name}` is {address}, which other machines can reach: set `tls_certificate`, `tls_key`, "
                    "`tls_ca` and `authentication = true`, or write `insecure = true` to serve every caller"
                )

    @classmethod
    def load(cls, path: Path | None, **given: Any) -> NodeSettings:
        """Read the settings from the file at `path`. If `path` is None, no file is read. A variable of the
        environment takes precedence over the file, and `given` takes precedence over both. Raises SettingsError."""
        file = {} if path is None else _read(path)
        for old, new in _RENAMED.items():
            if (variable := f"{ENVIRONMENT_PREFIX}{old.upper()}") in os.environ:
                raise SettingsError(f"environment: {variable} is called {ENVIRONMENT_PREFIX}{new.upper()} now")
        # Variables with our prefix that are no settings are ignored, because Kubernetes sets such variables.
        environment = EnvSettingsSource(cls, env_prefix=ENVIRONMENT_PREFIX)()
        try:
            return cls(**{**file, **environment, **given})
        except ValidationError as error:
            raise SettingsError("\n".join(_sentences(error, path, environment))) from error


class GivenSettings(NodeSettings):
    """Settings that only the program gives, for a node in the process of a user's program: the environment is the
    program's, and its variables have no effect."""

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        return (init_settings,)

    @classmethod
    def of(cls, **given: Any) -> GivenSettings:
        """Raises SettingsError."""
        try:
            return cls(**given)
        except ValidationError as error:
            raise SettingsError("\n".join(_sentences(error, None, {}))) from error


def _read(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise SettingsError(f"{path}: cannot be read: {error.strerror}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise SettingsError(f"{path}: is not TOML: {error}") from error


def _sentences(error: ValidationError, path: Path | None, environment: Mapping[str, Any]) -> list[str]:
    file = f"{path}: " if path else ""
    sentences = []
    faults = error.errors(include_url=False)
    with_wrong_items = {fault["loc"][0] for fault in faults if len(fault["loc"]) > 1}
    for fault in faults:
        if fault["type"] == "default_factory_not_called":  # this fault only says that there are other faults
            continue
        if fault["type"] == "too_short" and fault["loc"][0] in with_wrong_items:  # wrong items do not count
            continue
        key = str(fault["loc"][0]) if fault["loc"] else ""
        where = "environment: " if key in environment else file
        sentences.append(where + _sentence(key, fault["type"], fault["loc"][1:], fault["msg"]))
    return sentences


def _sentence(key: str, kind: str, inside: tuple[int | str, ...], message: str) -> str:
    if kind == "extra_forbidden":
        if key in _RENAMED:
            return f"`{key}` is called `{_RENAMED[key]}` now"
        close = get_close_matches(key, NodeSettings.model_fields, n=1)
        return f"`{key}` is not a setting" + (f"; did you mean `{close[0]}`?" if close else "")
    if kind == "missing":
        return f"`{key}` must be set, here or as {ENVIRONMENT_PREFIX}{key.upper()}"
    message = message.removeprefix("Value error, ")
    if not key:  # a fault of several settings together: its message names them
        return message
    place = "".join(f" {part}" for part in inside if part != "[key]")
    return f"`{key}`{place}: {message[:1].lower()}{message[1:]}"
