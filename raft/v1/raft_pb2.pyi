from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class ProofMessage(_message.Message):
    __slots__ = ("begin", "challenge", "answer", "token")
    BEGIN_FIELD_NUMBER: _ClassVar[int]
    CHALLENGE_FIELD_NUMBER: _ClassVar[int]
    ANSWER_FIELD_NUMBER: _ClassVar[int]
    TOKEN_FIELD_NUMBER: _ClassVar[int]
    begin: ProofBegin
    challenge: ProofChallenge
    answer: ProofAnswer
    token: ProofToken
    def __init__(self, begin: _Optional[_Union[ProofBegin, _Mapping]] = ..., challenge: _Optional[_Union[ProofChallenge, _Mapping]] = ..., answer: _Optional[_Union[ProofAnswer, _Mapping]] = ..., token: _Optional[_Union[ProofToken, _Mapping]] = ...) -> None: ...

class ProofBegin(_message.Message):
    __slots__ = ("cluster", "sender", "receiver", "nonce")
    CLUSTER_FIELD_NUMBER: _ClassVar[int]
    SENDER_FIELD_NUMBER: _ClassVar[int]
    RECEIVER_FIELD_NUMBER: _ClassVar[int]
    NONCE_FIELD_NUMBER: _ClassVar[int]
    cluster: str
    sender: int
    receiver: int
    nonce: bytes
    def __init__(self, cluster: _Optional[str] = ..., sender: _Optional[int] = ..., receiver: _Optional[int] = ..., nonce: _Optional[bytes] = ...) -> None: ...

class ProofChallenge(_message.Message):
    __slots__ = ("nonce", "macs")
    NONCE_FIELD_NUMBER: _ClassVar[int]
    MACS_FIELD_NUMBER: _ClassVar[int]
    nonce: bytes
    macs: _containers.RepeatedScalarFieldContainer[bytes]
    def __init__(self, nonce: _Optional[bytes] = ..., macs: _Optional[_Iterable[bytes]] = ...) -> None: ...

class ProofAnswer(_message.Message):
    __slots__ = ("mac", "certificates", "signature")
    MAC_FIELD_NUMBER: _ClassVar[int]
    CERTIFICATES_FIELD_NUMBER: _ClassVar[int]
    SIGNATURE_FIELD_NUMBER: _ClassVar[int]
    mac: bytes
    certificates: bytes
    signature: bytes
    def __init__(self, mac: _Optional[bytes] = ..., certificates: _Optional[bytes] = ..., signature: _Optional[bytes] = ...) -> None: ...

class ProofToken(_message.Message):
    __slots__ = ("token",)
    TOKEN_FIELD_NUMBER: _ClassVar[int]
    token: str
    def __init__(self, token: _Optional[str] = ...) -> None: ...

class IntroduceRequest(_message.Message):
    __slots__ = ("cluster", "shard", "sender", "voters", "segment_bytes", "max_entry_bytes", "adding")
    CLUSTER_FIELD_NUMBER: _ClassVar[int]
    SHARD_FIELD_NUMBER: _ClassVar[int]
    SENDER_FIELD_NUMBER: _ClassVar[int]
    VOTERS_FIELD_NUMBER: _ClassVar[int]
    SEGMENT_BYTES_FIELD_NUMBER: _ClassVar[int]
    MAX_ENTRY_BYTES_FIELD_NUMBER: _ClassVar[int]
    ADDING_FIELD_NUMBER: _ClassVar[int]
    cluster: str
    shard: int
    sender: int
    voters: _containers.RepeatedScalarFieldContainer[int]
    segment_bytes: int
    max_entry_bytes: int
    adding: bool
    def __init__(self, cluster: _Optional[str] = ..., shard: _Optional[int] = ..., sender: _Optional[int] = ..., voters: _Optional[_Iterable[int]] = ..., segment_bytes: _Optional[int] = ..., max_entry_bytes: _Optional[int] = ..., adding: _Optional[bool] = ...) -> None: ...

class IntroduceResponse(_message.Message):
    __slots__ = ("node", "incarnation", "empty", "refusal", "feature_level", "wall_ms")
    NODE_FIELD_NUMBER: _ClassVar[int]
    INCARNATION_FIELD_NUMBER: _ClassVar[int]
    EMPTY_FIELD_NUMBER: _ClassVar[int]
    REFUSAL_FIELD_NUMBER: _ClassVar[int]
    FEATURE_LEVEL_FIELD_NUMBER: _ClassVar[int]
    WALL_MS_FIELD_NUMBER: _ClassVar[int]
    node: int
    incarnation: bytes
    empty: bool
    refusal: str
    feature_level: int
    wall_ms: int
    def __init__(self, node: _Optional[int] = ..., incarnation: _Optional[bytes] = ..., empty: _Optional[bool] = ..., refusal: _Optional[str] = ..., feature_level: _Optional[int] = ..., wall_ms: _Optional[int] = ...) -> None: ...

class ReadEntriesRequest(_message.Message):
    __slots__ = ("cluster", "shard", "sender", "receiver", "segment_bytes", "prev_index", "prev_chain", "max_bytes")
    CLUSTER_FIELD_NUMBER: _ClassVar[int]
    SHARD_FIELD_NUMBER: _ClassVar[int]
    SENDER_FIELD_NUMBER: _ClassVar[int]
    RECEIVER_FIELD_NUMBER: _ClassVar[int]
    SEGMENT_BYTES_FIELD_NUMBER: _ClassVar[int]
    PREV_INDEX_FIELD_NUMBER: _ClassVar[int]
    PREV_CHAIN_FIELD_NUMBER: _ClassVar[int]
    MAX_BYTES_FIELD_NUMBER: _ClassVar[int]
    cluster: str
    shard: int
    sender: int
    receiver: int
    segment_bytes: int
    prev_index: int
    prev_chain: int
    max_bytes: int
    def __init__(self, cluster: _Optional[str] = ..., shard: _Optional[int] = ..., sender: _Optional[int] = ..., receiver: _Optional[int] = ..., segment_bytes: _Optional[int] = ..., prev_index: _Optional[int] = ..., prev_chain: _Optional[int] = ..., max_bytes: _Optional[int] = ...) -> None: ...

class ReadEntriesResponse(_message.Message):
    __slots__ = ("entries", "commit", "refusal", "differs", "first_index")
    ENTRIES_FIELD_NUMBER: _ClassVar[int]
    COMMIT_FIELD_NUMBER: _ClassVar[int]
    REFUSAL_FIELD_NUMBER: _ClassVar[int]
    DIFFERS_FIELD_NUMBER: _ClassVar[int]
    FIRST_INDEX_FIELD_NUMBER: _ClassVar[int]
    entries: bytes
    commit: int
    refusal: str
    differs: bool
    first_index: int
    def __init__(self, entries: _Optional[bytes] = ..., commit: _Optional[int] = ..., refusal: _Optional[str] = ..., differs: _Optional[bool] = ..., first_index: _Optional[int] = ...) -> None: ...

class GetConfigurationRequest(_message.Message):
    __slots__ = ("cluster", "shard", "sender")
    CLUSTER_FIELD_NUMBER: _ClassVar[int]
    SHARD_FIELD_NUMBER: _ClassVar[int]
    SENDER_FIELD_NUMBER: _ClassVar[int]
    cluster: str
    shard: int
    sender: int
    def __init__(self, cluster: _Optional[str] = ..., shard: _Optional[int] = ..., sender: _Optional[int] = ...) -> None: ...

class GetConfigurationResponse(_message.Message):
    __slots__ = ("index", "members")
    INDEX_FIELD_NUMBER: _ClassVar[int]
    MEMBERS_FIELD_NUMBER: _ClassVar[int]
    index: int
    members: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, index: _Optional[int] = ..., members: _Optional[_Iterable[int]] = ...) -> None: ...

class ControlBundle(_message.Message):
    __slots__ = ("messages",)
    MESSAGES_FIELD_NUMBER: _ClassVar[int]
    messages: _containers.RepeatedCompositeFieldContainer[ControlMessage]
    def __init__(self, messages: _Optional[_Iterable[_Union[ControlMessage, _Mapping]]] = ...) -> None: ...

class ControlMessage(_message.Message):
    __slots__ = ("vote_request", "vote_response", "heartbeat", "heartbeat_response", "timeout_now", "shard", "incarnation")
    VOTE_REQUEST_FIELD_NUMBER: _ClassVar[int]
    VOTE_RESPONSE_FIELD_NUMBER: _ClassVar[int]
    HEARTBEAT_FIELD_NUMBER: _ClassVar[int]
    HEARTBEAT_RESPONSE_FIELD_NUMBER: _ClassVar[int]
    TIMEOUT_NOW_FIELD_NUMBER: _ClassVar[int]
    SHARD_FIELD_NUMBER: _ClassVar[int]
    INCARNATION_FIELD_NUMBER: _ClassVar[int]
    vote_request: VoteRequest
    vote_response: VoteResponse
    heartbeat: Heartbeat
    heartbeat_response: HeartbeatResponse
    timeout_now: TimeoutNow
    shard: int
    incarnation: bytes
    def __init__(self, vote_request: _Optional[_Union[VoteRequest, _Mapping]] = ..., vote_response: _Optional[_Union[VoteResponse, _Mapping]] = ..., heartbeat: _Optional[_Union[Heartbeat, _Mapping]] = ..., heartbeat_response: _Optional[_Union[HeartbeatResponse, _Mapping]] = ..., timeout_now: _Optional[_Union[TimeoutNow, _Mapping]] = ..., shard: _Optional[int] = ..., incarnation: _Optional[bytes] = ...) -> None: ...

class VoteRequest(_message.Message):
    __slots__ = ("term", "last_index", "last_term", "pre", "transfer", "unanimous")
    TERM_FIELD_NUMBER: _ClassVar[int]
    LAST_INDEX_FIELD_NUMBER: _ClassVar[int]
    LAST_TERM_FIELD_NUMBER: _ClassVar[int]
    PRE_FIELD_NUMBER: _ClassVar[int]
    TRANSFER_FIELD_NUMBER: _ClassVar[int]
    UNANIMOUS_FIELD_NUMBER: _ClassVar[int]
    term: int
    last_index: int
    last_term: int
    pre: bool
    transfer: bool
    unanimous: bool
    def __init__(self, term: _Optional[int] = ..., last_index: _Optional[int] = ..., last_term: _Optional[int] = ..., pre: _Optional[bool] = ..., transfer: _Optional[bool] = ..., unanimous: _Optional[bool] = ...) -> None: ...

class VoteResponse(_message.Message):
    __slots__ = ("term", "granted", "pre", "suspicion", "wall_ms")
    TERM_FIELD_NUMBER: _ClassVar[int]
    GRANTED_FIELD_NUMBER: _ClassVar[int]
    PRE_FIELD_NUMBER: _ClassVar[int]
    SUSPICION_FIELD_NUMBER: _ClassVar[int]
    WALL_MS_FIELD_NUMBER: _ClassVar[int]
    term: int
    granted: bool
    pre: bool
    suspicion: int
    wall_ms: int
    def __init__(self, term: _Optional[int] = ..., granted: _Optional[bool] = ..., pre: _Optional[bool] = ..., suspicion: _Optional[int] = ..., wall_ms: _Optional[int] = ...) -> None: ...

class Heartbeat(_message.Message):
    __slots__ = ("term", "commit", "round", "lifted")
    TERM_FIELD_NUMBER: _ClassVar[int]
    COMMIT_FIELD_NUMBER: _ClassVar[int]
    ROUND_FIELD_NUMBER: _ClassVar[int]
    LIFTED_FIELD_NUMBER: _ClassVar[int]
    term: int
    commit: int
    round: int
    lifted: int
    def __init__(self, term: _Optional[int] = ..., commit: _Optional[int] = ..., round: _Optional[int] = ..., lifted: _Optional[int] = ...) -> None: ...

class HeartbeatResponse(_message.Message):
    __slots__ = ("term", "round", "suspicion", "feature_level", "owes_nothing", "refuses_writes", "wall_ms")
    TERM_FIELD_NUMBER: _ClassVar[int]
    ROUND_FIELD_NUMBER: _ClassVar[int]
    SUSPICION_FIELD_NUMBER: _ClassVar[int]
    FEATURE_LEVEL_FIELD_NUMBER: _ClassVar[int]
    OWES_NOTHING_FIELD_NUMBER: _ClassVar[int]
    REFUSES_WRITES_FIELD_NUMBER: _ClassVar[int]
    WALL_MS_FIELD_NUMBER: _ClassVar[int]
    term: int
    round: int
    suspicion: int
    feature_level: int
    owes_nothing: bool
    refuses_writes: bool
    wall_ms: int
    def __init__(self, term: _Optional[int] = ..., round: _Optional[int] = ..., suspicion: _Optional[int] = ..., feature_level: _Optional[int] = ..., owes_nothing: _Optional[bool] = ..., refuses_writes: _Optional[bool] = ..., wall_ms: _Optional[int] = ...) -> None: ...

class TimeoutNow(_message.Message):
    __slots__ = ("term",)
    TERM_FIELD_NUMBER: _ClassVar[int]
    term: int
    def __init__(self, term: _Optional[int] = ...) -> None: ...

class AppendRequest(_message.Message):
    __slots__ = ("term", "prev_index", "prev_term", "commit", "entries", "snapshot")
    TERM_FIELD_NUMBER: _ClassVar[int]
    PREV_INDEX_FIELD_NUMBER: _ClassVar[int]
    PREV_TERM_FIELD_NUMBER: _ClassVar[int]
    COMMIT_FIELD_NUMBER: _ClassVar[int]
    ENTRIES_FIELD_NUMBER: _ClassVar[int]
    SNAPSHOT_FIELD_NUMBER: _ClassVar[int]
    term: int
    prev_index: int
    prev_term: int
    commit: int
    entries: bytes
    snapshot: SnapshotPiece
    def __init__(self, term: _Optional[int] = ..., prev_index: _Optional[int] = ..., prev_term: _Optional[int] = ..., commit: _Optional[int] = ..., entries: _Optional[bytes] = ..., snapshot: _Optional[_Union[SnapshotPiece, _Mapping]] = ...) -> None: ...

class SnapshotPiece(_message.Message):
    __slots__ = ("index", "index_term", "size", "crc", "offset", "piece", "piece_crc")
    INDEX_FIELD_NUMBER: _ClassVar[int]
    INDEX_TERM_FIELD_NUMBER: _ClassVar[int]
    SIZE_FIELD_NUMBER: _ClassVar[int]
    CRC_FIELD_NUMBER: _ClassVar[int]
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    PIECE_FIELD_NUMBER: _ClassVar[int]
    PIECE_CRC_FIELD_NUMBER: _ClassVar[int]
    index: int
    index_term: int
    size: int
    crc: int
    offset: int
    piece: bytes
    piece_crc: int
    def __init__(self, index: _Optional[int] = ..., index_term: _Optional[int] = ..., size: _Optional[int] = ..., crc: _Optional[int] = ..., offset: _Optional[int] = ..., piece: _Optional[bytes] = ..., piece_crc: _Optional[int] = ...) -> None: ...

class AppendResponse(_message.Message):
    __slots__ = ("term", "rejected", "match", "hint_index", "hint_term", "rejected_index", "suspicion", "snapshot", "contradicted")
    TERM_FIELD_NUMBER: _ClassVar[int]
    REJECTED_FIELD_NUMBER: _ClassVar[int]
    MATCH_FIELD_NUMBER: _ClassVar[int]
    HINT_INDEX_FIELD_NUMBER: _ClassVar[int]
    HINT_TERM_FIELD_NUMBER: _ClassVar[int]
    REJECTED_INDEX_FIELD_NUMBER: _ClassVar[int]
    SUSPICION_FIELD_NUMBER: _ClassVar[int]
    SNAPSHOT_FIELD_NUMBER: _ClassVar[int]
    CONTRADICTED_FIELD_NUMBER: _ClassVar[int]
    term: int
    rejected: bool
    match: int
    hint_index: int
    hint_term: int
    rejected_index: int
    suspicion: int
    snapshot: SnapshotReceived
    contradicted: CommittedEntry
    def __init__(self, term: _Optional[int] = ..., rejected: _Optional[bool] = ..., match: _Optional[int] = ..., hint_index: _Optional[int] = ..., hint_term: _Optional[int] = ..., rejected_index: _Optional[int] = ..., suspicion: _Optional[int] = ..., snapshot: _Optional[_Union[SnapshotReceived, _Mapping]] = ..., contradicted: _Optional[_Union[CommittedEntry, _Mapping]] = ...) -> None: ...

class CommittedEntry(_message.Message):
    __slots__ = ("index", "term", "chain")
    INDEX_FIELD_NUMBER: _ClassVar[int]
    TERM_FIELD_NUMBER: _ClassVar[int]
    CHAIN_FIELD_NUMBER: _ClassVar[int]
    index: int
    term: int
    chain: int
    def __init__(self, index: _Optional[int] = ..., term: _Optional[int] = ..., chain: _Optional[int] = ...) -> None: ...

class SnapshotReceived(_message.Message):
    __slots__ = ("index", "received", "installed")
    INDEX_FIELD_NUMBER: _ClassVar[int]
    RECEIVED_FIELD_NUMBER: _ClassVar[int]
    INSTALLED_FIELD_NUMBER: _ClassVar[int]
    index: int
    received: int
    installed: bool
    def __init__(self, index: _Optional[int] = ..., received: _Optional[int] = ..., installed: _Optional[bool] = ...) -> None: ...

class Configuration(_message.Message):
    __slots__ = ("voters", "segment_bytes", "max_entry_bytes", "cluster", "learners")
    VOTERS_FIELD_NUMBER: _ClassVar[int]
    SEGMENT_BYTES_FIELD_NUMBER: _ClassVar[int]
    MAX_ENTRY_BYTES_FIELD_NUMBER: _ClassVar[int]
    CLUSTER_FIELD_NUMBER: _ClassVar[int]
    LEARNERS_FIELD_NUMBER: _ClassVar[int]
    voters: _containers.RepeatedCompositeFieldContainer[Member]
    segment_bytes: int
    max_entry_bytes: int
    cluster: str
    learners: _containers.RepeatedCompositeFieldContainer[Member]
    def __init__(self, voters: _Optional[_Iterable[_Union[Member, _Mapping]]] = ..., segment_bytes: _Optional[int] = ..., max_entry_bytes: _Optional[int] = ..., cluster: _Optional[str] = ..., learners: _Optional[_Iterable[_Union[Member, _Mapping]]] = ...) -> None: ...

class Member(_message.Message):
    __slots__ = ("node", "incarnation", "address")
    NODE_FIELD_NUMBER: _ClassVar[int]
    INCARNATION_FIELD_NUMBER: _ClassVar[int]
    ADDRESS_FIELD_NUMBER: _ClassVar[int]
    node: int
    incarnation: bytes
    address: str
    def __init__(self, node: _Optional[int] = ..., incarnation: _Optional[bytes] = ..., address: _Optional[str] = ...) -> None: ...
