from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Command(_message.Message):
    __slots__ = ("create_topic",)
    CREATE_TOPIC_FIELD_NUMBER: _ClassVar[int]
    create_topic: CreateTopic
    def __init__(self, create_topic: _Optional[_Union[CreateTopic, _Mapping]] = ...) -> None: ...

class CreateTopic(_message.Message):
    __slots__ = ("name", "queues")
    NAME_FIELD_NUMBER: _ClassVar[int]
    QUEUES_FIELD_NUMBER: _ClassVar[int]
    name: str
    queues: int
    def __init__(self, name: _Optional[str] = ..., queues: _Optional[int] = ...) -> None: ...
