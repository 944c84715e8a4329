from ledger.v1 import broker_pb2 as _broker_pb2
from ledger.v1 import error_pb2 as _error_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class CheckOutcome(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    UNKNOWN: _ClassVar[CheckOutcome]
    COMMIT: _ClassVar[CheckOutcome]
    ROLL_BACK: _ClassVar[CheckOutcome]

class HalfVerdict(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    UNDECIDED: _ClassVar[HalfVerdict]
    TO_COMMIT: _ClassVar[HalfVerdict]
    TO_ROLL_BACK: _ClassVar[HalfVerdict]
    TO_DEAD_LETTERS: _ClassVar[HalfVerdict]
UNKNOWN: CheckOutcome
COMMIT: CheckOutcome
ROLL_BACK: CheckOutcome
UNDECIDED: HalfVerdict
TO_COMMIT: HalfVerdict
TO_ROLL_BACK: HalfVerdict
TO_DEAD_LETTERS: HalfVerdict

class PrepareTransactionsRequest(_message.Message):
    __slots__ = ("producer_group",)
    PRODUCER_GROUP_FIELD_NUMBER: _ClassVar[int]
    producer_group: str
    def __init__(self, producer_group: _Optional[str] = ...) -> None: ...

class PrepareTransactionsResponse(_message.Message):
    __slots__ = ("error", "topic")
    ERROR_FIELD_NUMBER: _ClassVar[int]
    TOPIC_FIELD_NUMBER: _ClassVar[int]
    error: _error_pb2.Error
    topic: _broker_pb2.TopicRoute
    def __init__(self, error: _Optional[_Union[_error_pb2.Error, _Mapping]] = ..., topic: _Optional[_Union[_broker_pb2.TopicRoute, _Mapping]] = ...) -> None: ...

class EndTransactionsRequest(_message.Message):
    __slots__ = ("shard", "ends")
    SHARD_FIELD_NUMBER: _ClassVar[int]
    ENDS_FIELD_NUMBER: _ClassVar[int]
    shard: int
    ends: _containers.RepeatedCompositeFieldContainer[TransactionEnd]
    def __init__(self, shard: _Optional[int] = ..., ends: _Optional[_Iterable[_Union[TransactionEnd, _Mapping]]] = ...) -> None: ...

class TransactionEnd(_message.Message):
    __slots__ = ("transaction", "topic_id", "commit", "halves", "find_halves")
    TRANSACTION_FIELD_NUMBER: _ClassVar[int]
    TOPIC_ID_FIELD_NUMBER: _ClassVar[int]
    COMMIT_FIELD_NUMBER: _ClassVar[int]
    HALVES_FIELD_NUMBER: _ClassVar[int]
    FIND_HALVES_FIELD_NUMBER: _ClassVar[int]
    transaction: int
    topic_id: int
    commit: bool
    halves: _containers.RepeatedCompositeFieldContainer[NamedHalf]
    find_halves: bool
    def __init__(self, transaction: _Optional[int] = ..., topic_id: _Optional[int] = ..., commit: _Optional[bool] = ..., halves: _Optional[_Iterable[_Union[NamedHalf, _Mapping]]] = ..., find_halves: _Optional[bool] = ...) -> None: ...

class NamedHalf(_message.Message):
    __slots__ = ("shard", "number")
    SHARD_FIELD_NUMBER: _ClassVar[int]
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    shard: int
    number: int
    def __init__(self, shard: _Optional[int] = ..., number: _Optional[int] = ...) -> None: ...

class EndTransactionsResponse(_message.Message):
    __slots__ = ("error", "results")
    ERROR_FIELD_NUMBER: _ClassVar[int]
    RESULTS_FIELD_NUMBER: _ClassVar[int]
    error: _error_pb2.Error
    results: _containers.RepeatedCompositeFieldContainer[TransactionEnded]
    def __init__(self, error: _Optional[_Union[_error_pb2.Error, _Mapping]] = ..., results: _Optional[_Iterable[_Union[TransactionEnded, _Mapping]]] = ...) -> None: ...

class TransactionEnded(_message.Message):
    __slots__ = ("error", "base_offset", "append_time_ms", "term")
    ERROR_FIELD_NUMBER: _ClassVar[int]
    BASE_OFFSET_FIELD_NUMBER: _ClassVar[int]
    APPEND_TIME_MS_FIELD_NUMBER: _ClassVar[int]
    TERM_FIELD_NUMBER: _ClassVar[int]
    error: _error_pb2.Error
    base_offset: int
    append_time_ms: int
    term: int
    def __init__(self, error: _Optional[_Union[_error_pb2.Error, _Mapping]] = ..., base_offset: _Optional[int] = ..., append_time_ms: _Optional[int] = ..., term: _Optional[int] = ...) -> None: ...

class ListTransactionsRequest(_message.Message):
    __slots__ = ("shard", "producer_group", "after", "limit", "only")
    SHARD_FIELD_NUMBER: _ClassVar[int]
    PRODUCER_GROUP_FIELD_NUMBER: _ClassVar[int]
    AFTER_FIELD_NUMBER: _ClassVar[int]
    LIMIT_FIELD_NUMBER: _ClassVar[int]
    ONLY_FIELD_NUMBER: _ClassVar[int]
    shard: int
    producer_group: str
    after: int
    limit: int
    only: int
    def __init__(self, shard: _Optional[int] = ..., producer_group: _Optional[str] = ..., after: _Optional[int] = ..., limit: _Optional[int] = ..., only: _Optional[int] = ...) -> None: ...

class ListTransactionsResponse(_message.Message):
    __slots__ = ("error", "transactions", "next")
    ERROR_FIELD_NUMBER: _ClassVar[int]
    TRANSACTIONS_FIELD_NUMBER: _ClassVar[int]
    NEXT_FIELD_NUMBER: _ClassVar[int]
    error: _error_pb2.Error
    transactions: _containers.RepeatedCompositeFieldContainer[ListedTransaction]
    next: int
    def __init__(self, error: _Optional[_Union[_error_pb2.Error, _Mapping]] = ..., transactions: _Optional[_Iterable[_Union[ListedTransaction, _Mapping]]] = ..., next: _Optional[int] = ...) -> None: ...

class ListedTransaction(_message.Message):
    __slots__ = ("transaction", "producer_group", "since_ms", "unknowns", "halves", "state", "decided_ms")
    TRANSACTION_FIELD_NUMBER: _ClassVar[int]
    PRODUCER_GROUP_FIELD_NUMBER: _ClassVar[int]
    SINCE_MS_FIELD_NUMBER: _ClassVar[int]
    UNKNOWNS_FIELD_NUMBER: _ClassVar[int]
    HALVES_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    DECIDED_MS_FIELD_NUMBER: _ClassVar[int]
    transaction: int
    producer_group: str
    since_ms: int
    unknowns: int
    halves: _containers.RepeatedCompositeFieldContainer[ListedHalf]
    state: str
    decided_ms: int
    def __init__(self, transaction: _Optional[int] = ..., producer_group: _Optional[str] = ..., since_ms: _Optional[int] = ..., unknowns: _Optional[int] = ..., halves: _Optional[_Iterable[_Union[ListedHalf, _Mapping]]] = ..., state: _Optional[str] = ..., decided_ms: _Optional[int] = ...) -> None: ...

class ListedHalf(_message.Message):
    __slots__ = ("number", "topic_id", "queue", "messages", "size", "body")
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    TOPIC_ID_FIELD_NUMBER: _ClassVar[int]
    QUEUE_FIELD_NUMBER: _ClassVar[int]
    MESSAGES_FIELD_NUMBER: _ClassVar[int]
    SIZE_FIELD_NUMBER: _ClassVar[int]
    BODY_FIELD_NUMBER: _ClassVar[int]
    number: int
    topic_id: int
    queue: int
    messages: int
    size: int
    body: bytes
    def __init__(self, number: _Optional[int] = ..., topic_id: _Optional[int] = ..., queue: _Optional[int] = ..., messages: _Optional[int] = ..., size: _Optional[int] = ..., body: _Optional[bytes] = ...) -> None: ...

class CheckAnswer(_message.Message):
    __slots__ = ("producer_group", "check", "outcome", "name")
    PRODUCER_GROUP_FIELD_NUMBER: _ClassVar[int]
    CHECK_FIELD_NUMBER: _ClassVar[int]
    OUTCOME_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    producer_group: str
    check: int
    outcome: CheckOutcome
    name: str
    def __init__(self, producer_group: _Optional[str] = ..., check: _Optional[int] = ..., outcome: _Optional[_Union[CheckOutcome, str]] = ..., name: _Optional[str] = ...) -> None: ...

class TransactionCheck(_message.Message):
    __slots__ = ("error", "check", "shard", "transaction", "topic_id", "queue", "since_ms", "unknowns", "body")
    ERROR_FIELD_NUMBER: _ClassVar[int]
    CHECK_FIELD_NUMBER: _ClassVar[int]
    SHARD_FIELD_NUMBER: _ClassVar[int]
    TRANSACTION_FIELD_NUMBER: _ClassVar[int]
    TOPIC_ID_FIELD_NUMBER: _ClassVar[int]
    QUEUE_FIELD_NUMBER: _ClassVar[int]
    SINCE_MS_FIELD_NUMBER: _ClassVar[int]
    UNKNOWNS_FIELD_NUMBER: _ClassVar[int]
    BODY_FIELD_NUMBER: _ClassVar[int]
    error: _error_pb2.Error
    check: int
    shard: int
    transaction: int
    topic_id: int
    queue: int
    since_ms: int
    unknowns: int
    body: bytes
    def __init__(self, error: _Optional[_Union[_error_pb2.Error, _Mapping]] = ..., check: _Optional[int] = ..., shard: _Optional[int] = ..., transaction: _Optional[int] = ..., topic_id: _Optional[int] = ..., queue: _Optional[int] = ..., since_ms: _Optional[int] = ..., unknowns: _Optional[int] = ..., body: _Optional[bytes] = ...) -> None: ...

class SettleHalvesRequest(_message.Message):
    __slots__ = ("shard", "decision_shard", "halves")
    SHARD_FIELD_NUMBER: _ClassVar[int]
    DECISION_SHARD_FIELD_NUMBER: _ClassVar[int]
    HALVES_FIELD_NUMBER: _ClassVar[int]
    shard: int
    decision_shard: int
    halves: _containers.RepeatedCompositeFieldContainer[HalfOfTransaction]
    def __init__(self, shard: _Optional[int] = ..., decision_shard: _Optional[int] = ..., halves: _Optional[_Iterable[_Union[HalfOfTransaction, _Mapping]]] = ...) -> None: ...

class HalfOfTransaction(_message.Message):
    __slots__ = ("transaction", "number")
    TRANSACTION_FIELD_NUMBER: _ClassVar[int]
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    transaction: int
    number: int
    def __init__(self, transaction: _Optional[int] = ..., number: _Optional[int] = ...) -> None: ...

class SettleHalvesResponse(_message.Message):
    __slots__ = ("error", "settled")
    ERROR_FIELD_NUMBER: _ClassVar[int]
    SETTLED_FIELD_NUMBER: _ClassVar[int]
    error: _error_pb2.Error
    settled: _containers.RepeatedScalarFieldContainer[bool]
    def __init__(self, error: _Optional[_Union[_error_pb2.Error, _Mapping]] = ..., settled: _Optional[_Iterable[bool]] = ...) -> None: ...

class JudgeHalvesRequest(_message.Message):
    __slots__ = ("shard", "asking_shard", "halves")
    SHARD_FIELD_NUMBER: _ClassVar[int]
    ASKING_SHARD_FIELD_NUMBER: _ClassVar[int]
    HALVES_FIELD_NUMBER: _ClassVar[int]
    shard: int
    asking_shard: int
    halves: _containers.RepeatedCompositeFieldContainer[HalfOfTransaction]
    def __init__(self, shard: _Optional[int] = ..., asking_shard: _Optional[int] = ..., halves: _Optional[_Iterable[_Union[HalfOfTransaction, _Mapping]]] = ...) -> None: ...

class JudgeHalvesResponse(_message.Message):
    __slots__ = ("error", "verdicts")
    ERROR_FIELD_NUMBER: _ClassVar[int]
    VERDICTS_FIELD_NUMBER: _ClassVar[int]
    error: _error_pb2.Error
    verdicts: _containers.RepeatedScalarFieldContainer[HalfVerdict]
    def __init__(self, error: _Optional[_Union[_error_pb2.Error, _Mapping]] = ..., verdicts: _Optional[_Iterable[_Union[HalfVerdict, str]]] = ...) -> None: ...

class FindHalvesRequest(_message.Message):
    __slots__ = ("shard", "decision_shard", "transaction")
    SHARD_FIELD_NUMBER: _ClassVar[int]
    DECISION_SHARD_FIELD_NUMBER: _ClassVar[int]
    TRANSACTION_FIELD_NUMBER: _ClassVar[int]
    shard: int
    decision_shard: int
    transaction: int
    def __init__(self, shard: _Optional[int] = ..., decision_shard: _Optional[int] = ..., transaction: _Optional[int] = ...) -> None: ...

class FindHalvesResponse(_message.Message):
    __slots__ = ("error", "numbers")
    ERROR_FIELD_NUMBER: _ClassVar[int]
    NUMBERS_FIELD_NUMBER: _ClassVar[int]
    error: _error_pb2.Error
    numbers: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, error: _Optional[_Union[_error_pb2.Error, _Mapping]] = ..., numbers: _Optional[_Iterable[int]] = ...) -> None: ...
