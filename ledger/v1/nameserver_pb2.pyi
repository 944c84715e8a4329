from ledger.v1 import broker_pb2 as _broker_pb2
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Registration(_message.Message):
    __slots__ = ("node", "routes")
    NODE_FIELD_NUMBER: _ClassVar[int]
    ROUTES_FIELD_NUMBER: _ClassVar[int]
    node: int
    routes: _broker_pb2.GetRouteResponse
    def __init__(self, node: _Optional[int] = ..., routes: _Optional[_Union[_broker_pb2.GetRouteResponse, _Mapping]] = ...) -> None: ...

class RegistrationAnswer(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...
