"""The settings of one node, read from a TOML file and the environment, and checked in one place.

A node runs on one frozen object, made before anything is opened; whatever is wrong with it is said at once, every
fault in a sentence that names its key. ``LEDGERMQ_<KEY>`` in the environment wins over the file:

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
import tomllib
from collections.abc import Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, BeforeValidator, Field, ValidationError, model_validator
from pydantic_settings import BaseSettings, EnvSettingsSource, NoDecode, SettingsConfigDict

from cluster.address import check_address, split_address
from ledger.consumer_groups import validate_room
from ledger.errors import InvalidArgumentError
from ledger.retries import DELAYS_S
from store import KERNEL_BOOT_ID, ReadAhead, WriteMode, Writing

__all__ = ["NodeSettings", "SettingsError", "split_address"]

ENVIRONMENT_PREFIX = "LEDGERMQ_"
MIB = 1 << 20
_TRUE = ("1", "true", "t", "yes", "y", "on")  # as pydantic reads them
# What an entry may hold beside its largest message: 1 MiB of key, tag and headers, as producers have it, and what the
# batch and the entry add.
_BESIDE_THE_MESSAGE_BYTES = MIB + (64 << 10)
# Settings of version 0.1 and their names today.
_RENAMED = {"groups": "shards"}


class SettingsError(Exception):
    """The settings cannot be used. The message has one line for each fault, each naming its key."""


def _check_optional_address(address: str) -> str:
    return address and check_address(address)


def _split_peers(value: object) -> object:
    """The environment's way to write peers, "1=host:port,2=host:port", as a mapping; anything else as it is."""
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
    # A node that is not among its peers is refused below, by a sentence of its own.
    peers: dict[int, str] = valid.get("peers", {})
    return peers.get(valid.get("node", 0)) or str(valid.get("listen", "127.0.0.1:9871"))


def _split_list(value: object) -> object:
    """The environment's way to write a list, "10,30,60"; anything else as it is."""
    return [part.strip() for part in value.split(",") if part.strip()] if isinstance(value, str) else value


def _check_room(room: str) -> str:
    try:
        validate_room(room)
    except InvalidArgumentError as error:
        raise ValueError(str(error)) from error
    return room


Delay = Annotated[float, Field(gt=0, le=366 * 86_400, allow_inf_nan=False)]
NodeId = Annotated[int, Field(ge=1, le=0xFFFF_FFFF)]
Address = Annotated[str, AfterValidator(check_address)]
OptionalAddress = Annotated[str, AfterValidator(_check_optional_address)]


class NodeSettings(BaseSettings):
    """Everything that a node can be told. Times in ms, sizes in bytes."""

    model_config = SettingsConfigDict(
        env_prefix=ENVIRONMENT_PREFIX, frozen=True, extra="forbid", validate_default=True, hide_input_in_errors=True
    )

    node: NodeId
    cluster: str = Field(default="dev", min_length=1, max_length=127)
    data: Path
    # Where the indexes lie, which can be built from the log at any time: perhaps on a cheaper disk. None: under `data`.
    index_data: Path | None = None
    # This node waits to be added to a cluster that runs (`ledgermq cluster add-node`). Where it has data already, this
    # changes nothing.
    join: bool = False
    # Every voter of the first start, this node included: id -> where the others reach it. Where this node joins a
    # cluster, nobody need be here: it learns of the others from the cluster, and what is here goes before that.
    peers: Annotated[dict[NodeId, Address], NoDecode, BeforeValidator(_split_peers)]

    listen: Address = "127.0.0.1:9871"
    # Where clients are told to come; by default the node's own address among `peers`, since `listen` may be 0.0.0.0.
    advertised: Address = Field(default_factory=_own_address)
    # Where clients reach the nodes from outside of their network, such as from the host of containers: id -> address. A
    # client that was given one of these uses them for all nodes. All that any node names count, of added ones too.
    outside: Annotated[dict[NodeId, Address], NoDecode, BeforeValidator(_split_peers)] = Field(default_factory=dict)
    # Where this node tells what it knows of routes: name servers, for clients that do not know the nodes.
    nameservers: Annotated[tuple[Address, ...], NoDecode, BeforeValidator(_split_list)] = ()
    # The machine room that this node is in: for consumer groups whose members are to consume what is near.
    room: Annotated[str, AfterValidator(_check_room)] = ""
    # Metrics and health; empty: none.
    http: OptionalAddress = "127.0.0.1:9872"
    # The log's segments over that port too: whoever reaches it can read all messages.
    serve_segments: bool = True

    # When an append counts: once in the page cache, or once on the disk. One for the whole cluster.
    flush: Literal["async", "sync"] = "async"
    # Where nobody waits for a flush: at each interval, if so many pages of 4 KiB were written; at the thorough one,
    # whatever was written.
    flush_interval_ms: int = Field(default=500, ge=1, le=60_000)
    flush_pages: int = Field(default=4, ge=0)
    flush_thorough_ms: int = Field(default=10_000, ge=1, le=600_000)

    # By which way appends get into the files: pwrite, a copy into a mapping, or a copy into a buffer of this process
    # that is written to the file later. Of such buffers there are at most so many, each of a segment's size.
    write: WriteMode = "direct"
    staged_segments: int = Field(default=3, ge=1, le=16)
    write_out_interval_ms: int = Field(default=200, ge=1, le=60_000)
    # New sends are refused (retriable) while an append, or a flush that they would wait for, takes longer; 0: never.
    busy_ms: int = Field(default=1000, ge=0, le=600_000)
    # What is asked of the system's memory: to have the pages of the next segment ready, to keep the segment in use, and
    # how segments will be read. See docs/STORE.md before changing one.
    warm: bool = False
    lock_memory: bool = False
    read_ahead: ReadAhead = "normal"

    # So many shards at least, as shard 0's leader has it: shard 0 on all nodes, each other one on three. There are
    # never fewer again; `ledgermq cluster add-shard` makes more.
    shards: int = Field(default=1, ge=1, le=64)
    # Both are fixed for a shard by its first configuration entry.
    segment_bytes: int = Field(default=1024 * MIB, ge=MIB, le=4096 * MIB, multiple_of=4096)
    max_message_bytes: int = Field(default=4 * MIB, ge=1024, le=48 * MIB)

    # Tells whether the machine was started anew since this node last ran, so that what was not flushed may be gone. To
    # be set where the kernel's own file does not tell that: under a test that cuts the power of one node, say.
    boot_id_file: Path = KERNEL_BOOT_ID

    # What is kept: the leader's settings count, so set the same on all nodes. Whole segments go, on all nodes at the
    # same place, but never the one in use, nor what somebody holds. What is older than this goes; 0: however old.
    retention_hours: float = Field(default=72.0, ge=0, le=1_000_000, allow_inf_nan=False)
    # The oldest go where the log is larger; 0: however large.
    retention_bytes: int = Field(default=0, ge=0)
    # Old segments go only in this hour of the day (UTC), and when the disk is full; by default at any time.
    cleaning_hour: int | None = Field(default=None, ge=0, le=23)
    # From these uses of the log's disk on: what is too old goes at any hour; the oldest goes, however young; writes are
    # refused. 0 turns each off.
    disk_clean_ratio: float = Field(default=0.75, ge=0, le=1)
    disk_force_ratio: float = Field(default=0.85, ge=0, le=1)
    disk_refuse_ratio: float = Field(default=0.90, ge=0, le=1)
    # How often all that is looked at.
    retention_check_ms: int = Field(default=10_000, ge=10, le=3_600_000)

    # What one client may send to this node, or fetch from it, in a second; 0: as much as it likes. A client is whoever
    # calls itself by the same `client_id`; without one, all of a host are one. See docs/LIMITS.md.
    produce_quota_bytes_per_s: int = Field(default=0, ge=0)
    produce_quota_messages_per_s: int = Field(default=0, ge=0)
    fetch_quota_bytes_per_s: int = Field(default=0, ge=0)
    fetch_quota_messages_per_s: int = Field(default=0, ge=0)

    # How long a message that could not be consumed waits before it is handed out again: for the second time, the third,
    # and so on. Further times as the last one. Set the same on all nodes.
    retry_delays_s: Annotated[tuple[Delay, ...], NoDecode, BeforeValidator(_split_list)] = Field(
        default=DELAYS_S, min_length=1, max_length=64
    )

    tick_ms: int = Field(default=50, ge=1, le=10_000)
    heartbeat_ticks: int = Field(default=2, ge=1)
    election_ticks: int = Field(default=10, ge=2)
    # Whoever else leads hands over to this node when it can; 0: none is preferred.
    preferred_leader: int = Field(default=0, ge=0, le=0xFFFF_FFFF)
    # Where there are several shards, and no preferred leader: each is to be led by another of its voters, in turn.
    spread_leaders: bool = True

    log_format: Literal["text", "json"] = "text"
    log_level: Literal["debug", "info", "warning", "error"] = "info"

    @property
    def largest_entry_bytes(self) -> int:
        """The largest entry that a node takes, its header included: `segment_bytes` is never less."""
        return self.max_message_bytes + _BESIDE_THE_MESSAGE_BYTES

    @property
    def addresses(self) -> dict[int, str]:
        """Where clients reach each node, as far as this one is told. Of itself, one that joins is told nothing, unless
        by `advertised`: the cluster has it from whoever adds it."""
        told = not self.join or self.node in self.peers or "advertised" in self.model_fields_set
        return {**self.peers, self.node: self.advertised} if told else dict(self.peers)

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
            raise ValueError("`peers` is empty: name every node of the first start, this one included")
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
        if self.index_data == self.data:
            raise ValueError("`index_data` is the same directory as `data`: leave it out, indexes lie there then")
        if self.flush_thorough_ms < self.flush_interval_ms:
            raise ValueError(
                f"`flush_thorough_ms` ({self.flush_thorough_ms}) must not be less than `flush_interval_ms` "
                f"({self.flush_interval_ms})"
            )
        if self.election_ticks <= self.heartbeat_ticks:
            raise ValueError(
                f"`election_ticks` ({self.election_ticks}) must be larger than `heartbeat_ticks` "
                f"({self.heartbeat_ticks}), or followers stand before a heartbeat can reach them"
            )
        ratios = (self.disk_clean_ratio, self.disk_force_ratio, self.disk_refuse_ratio)
        used = [ratio for ratio in ratios if ratio]
        if used != sorted(used):
            raise ValueError(
                "`disk_clean_ratio`, `disk_force_ratio` and `disk_refuse_ratio` must rise in this order, but for those "
                f"that are 0 (off); they are {', '.join(f'{ratio:g}' for ratio in ratios)}"
            )
        if self.segment_bytes < self.largest_entry_bytes:
            raise ValueError(
                f"`segment_bytes` ({self.segment_bytes:,}) must hold the largest entry, which `max_message_bytes` "
                f"({self.max_message_bytes:,}) makes {self.largest_entry_bytes:,} bytes"
            )
        return self

    @classmethod
    def load(cls, path: Path | None, **given: Any) -> NodeSettings:
        """The settings of the file at `path` (None: no file), with the environment over them and `given` over all;
        raises SettingsError."""
        file = {} if path is None else _read(path)
        for old, new in _RENAMED.items():
            if (variable := f"{ENVIRONMENT_PREFIX}{old.upper()}") in os.environ:
                raise SettingsError(f"environment: {variable} is called {ENVIRONMENT_PREFIX}{new.upper()} now")
        # Only keys that are settings are taken from the environment: Kubernetes puts others of this prefix there.
        environment = EnvSettingsSource(cls, env_prefix=ENVIRONMENT_PREFIX)()
        try:
            return cls(**{**file, **environment, **given})
        except ValidationError as error:
            raise SettingsError("\n".join(_sentences(error, path, environment))) from error


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
    for fault in error.errors(include_url=False):
        if fault["type"] == "default_factory_not_called":  # only says that there are other faults
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
    if not key:  # of several settings together: the message names them
        return message
    place = "".join(f" {part}" for part in inside if part != "[key]")
    return f"`{key}`{place}: {message[:1].lower()}{message[1:]}"
