from ledger.v1 import error_pb2 as _error_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class AuthenticateRequest(_message.Message):
    __slots__ = ("scram", "delegated_token", "certificate_nonce", "certificate")
    SCRAM_FIELD_NUMBER: _ClassVar[int]
    DELEGATED_TOKEN_FIELD_NUMBER: _ClassVar[int]
    CERTIFICATE_NONCE_FIELD_NUMBER: _ClassVar[int]
    CERTIFICATE_FIELD_NUMBER: _ClassVar[int]
    scram: str
    delegated_token: str
    certificate_nonce: bytes
    certificate: CertificateProof
    def __init__(self, scram: _Optional[str] = ..., delegated_token: _Optional[str] = ..., certificate_nonce: _Optional[bytes] = ..., certificate: _Optional[_Union[CertificateProof, _Mapping]] = ...) -> None: ...

class CertificateProof(_message.Message):
    __slots__ = ("certificates", "signature")
    CERTIFICATES_FIELD_NUMBER: _ClassVar[int]
    SIGNATURE_FIELD_NUMBER: _ClassVar[int]
    certificates: bytes
    signature: bytes
    def __init__(self, certificates: _Optional[bytes] = ..., signature: _Optional[bytes] = ...) -> None: ...

class AuthenticateResponse(_message.Message):
    __slots__ = ("error", "scram", "token", "expires_in_ms", "nonce", "cluster", "user")
    ERROR_FIELD_NUMBER: _ClassVar[int]
    SCRAM_FIELD_NUMBER: _ClassVar[int]
    TOKEN_FIELD_NUMBER: _ClassVar[int]
    EXPIRES_IN_MS_FIELD_NUMBER: _ClassVar[int]
    NONCE_FIELD_NUMBER: _ClassVar[int]
    CLUSTER_FIELD_NUMBER: _ClassVar[int]
    USER_FIELD_NUMBER: _ClassVar[int]
    error: _error_pb2.Error
    scram: str
    token: str
    expires_in_ms: int
    nonce: bytes
    cluster: str
    user: str
    def __init__(self, error: _Optional[_Union[_error_pb2.Error, _Mapping]] = ..., scram: _Optional[str] = ..., token: _Optional[str] = ..., expires_in_ms: _Optional[int] = ..., nonce: _Optional[bytes] = ..., cluster: _Optional[str] = ..., user: _Optional[str] = ...) -> None: ...

class ScramVerifier(_message.Message):
    __slots__ = ("salt", "iterations", "stored_key", "server_key")
    SALT_FIELD_NUMBER: _ClassVar[int]
    ITERATIONS_FIELD_NUMBER: _ClassVar[int]
    STORED_KEY_FIELD_NUMBER: _ClassVar[int]
    SERVER_KEY_FIELD_NUMBER: _ClassVar[int]
    salt: bytes
    iterations: int
    stored_key: bytes
    server_key: bytes
    def __init__(self, salt: _Optional[bytes] = ..., iterations: _Optional[int] = ..., stored_key: _Optional[bytes] = ..., server_key: _Optional[bytes] = ...) -> None: ...

class ListUsersRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class ListUsersResponse(_message.Message):
    __slots__ = ("error", "users")
    ERROR_FIELD_NUMBER: _ClassVar[int]
    USERS_FIELD_NUMBER: _ClassVar[int]
    error: _error_pb2.Error
    users: _containers.RepeatedCompositeFieldContainer[User]
    def __init__(self, error: _Optional[_Union[_error_pb2.Error, _Mapping]] = ..., users: _Optional[_Iterable[_Union[User, _Mapping]]] = ...) -> None: ...

class User(_message.Message):
    __slots__ = ("name", "has_password", "rules", "has_rocketmq_secret")
    NAME_FIELD_NUMBER: _ClassVar[int]
    HAS_PASSWORD_FIELD_NUMBER: _ClassVar[int]
    RULES_FIELD_NUMBER: _ClassVar[int]
    HAS_ROCKETMQ_SECRET_FIELD_NUMBER: _ClassVar[int]
    name: str
    has_password: bool
    rules: int
    has_rocketmq_secret: bool
    def __init__(self, name: _Optional[str] = ..., has_password: _Optional[bool] = ..., rules: _Optional[int] = ..., has_rocketmq_secret: _Optional[bool] = ...) -> None: ...

class AddUserRequest(_message.Message):
    __slots__ = ("name", "verifier")
    NAME_FIELD_NUMBER: _ClassVar[int]
    VERIFIER_FIELD_NUMBER: _ClassVar[int]
    name: str
    verifier: ScramVerifier
    def __init__(self, name: _Optional[str] = ..., verifier: _Optional[_Union[ScramVerifier, _Mapping]] = ...) -> None: ...

class AddUserResponse(_message.Message):
    __slots__ = ("error",)
    ERROR_FIELD_NUMBER: _ClassVar[int]
    error: _error_pb2.Error
    def __init__(self, error: _Optional[_Union[_error_pb2.Error, _Mapping]] = ...) -> None: ...

class RotateUserRequest(_message.Message):
    __slots__ = ("name", "verifier")
    NAME_FIELD_NUMBER: _ClassVar[int]
    VERIFIER_FIELD_NUMBER: _ClassVar[int]
    name: str
    verifier: ScramVerifier
    def __init__(self, name: _Optional[str] = ..., verifier: _Optional[_Union[ScramVerifier, _Mapping]] = ...) -> None: ...

class RotateUserResponse(_message.Message):
    __slots__ = ("error",)
    ERROR_FIELD_NUMBER: _ClassVar[int]
    error: _error_pb2.Error
    def __init__(self, error: _Optional[_Union[_error_pb2.Error, _Mapping]] = ...) -> None: ...

class RemoveUserRequest(_message.Message):
    __slots__ = ("name",)
    NAME_FIELD_NUMBER: _ClassVar[int]
    name: str
    def __init__(self, name: _Optional[str] = ...) -> None: ...

class RemoveUserResponse(_message.Message):
    __slots__ = ("error",)
    ERROR_FIELD_NUMBER: _ClassVar[int]
    error: _error_pb2.Error
    def __init__(self, error: _Optional[_Union[_error_pb2.Error, _Mapping]] = ...) -> None: ...

class AclRule(_message.Message):
    __slots__ = ("user", "action", "resource", "deny")
    USER_FIELD_NUMBER: _ClassVar[int]
    ACTION_FIELD_NUMBER: _ClassVar[int]
    RESOURCE_FIELD_NUMBER: _ClassVar[int]
    DENY_FIELD_NUMBER: _ClassVar[int]
    user: str
    action: str
    resource: str
    deny: bool
    def __init__(self, user: _Optional[str] = ..., action: _Optional[str] = ..., resource: _Optional[str] = ..., deny: _Optional[bool] = ...) -> None: ...

class GrantRulesRequest(_message.Message):
    __slots__ = ("rules",)
    RULES_FIELD_NUMBER: _ClassVar[int]
    rules: _containers.RepeatedCompositeFieldContainer[AclRule]
    def __init__(self, rules: _Optional[_Iterable[_Union[AclRule, _Mapping]]] = ...) -> None: ...

class GrantRulesResponse(_message.Message):
    __slots__ = ("error",)
    ERROR_FIELD_NUMBER: _ClassVar[int]
    error: _error_pb2.Error
    def __init__(self, error: _Optional[_Union[_error_pb2.Error, _Mapping]] = ...) -> None: ...

class RevokeRulesRequest(_message.Message):
    __slots__ = ("rules",)
    RULES_FIELD_NUMBER: _ClassVar[int]
    rules: _containers.RepeatedCompositeFieldContainer[AclRule]
    def __init__(self, rules: _Optional[_Iterable[_Union[AclRule, _Mapping]]] = ...) -> None: ...

class RevokeRulesResponse(_message.Message):
    __slots__ = ("error", "revoked")
    ERROR_FIELD_NUMBER: _ClassVar[int]
    REVOKED_FIELD_NUMBER: _ClassVar[int]
    error: _error_pb2.Error
    revoked: int
    def __init__(self, error: _Optional[_Union[_error_pb2.Error, _Mapping]] = ..., revoked: _Optional[int] = ...) -> None: ...

class ListRulesRequest(_message.Message):
    __slots__ = ("user",)
    USER_FIELD_NUMBER: _ClassVar[int]
    user: str
    def __init__(self, user: _Optional[str] = ...) -> None: ...

class ListRulesResponse(_message.Message):
    __slots__ = ("error", "rules")
    ERROR_FIELD_NUMBER: _ClassVar[int]
    RULES_FIELD_NUMBER: _ClassVar[int]
    error: _error_pb2.Error
    rules: _containers.RepeatedCompositeFieldContainer[AclRule]
    def __init__(self, error: _Optional[_Union[_error_pb2.Error, _Mapping]] = ..., rules: _Optional[_Iterable[_Union[AclRule, _Mapping]]] = ...) -> None: ...

class TestRightRequest(_message.Message):
    __slots__ = ("user", "action", "resource")
    USER_FIELD_NUMBER: _ClassVar[int]
    ACTION_FIELD_NUMBER: _ClassVar[int]
    RESOURCE_FIELD_NUMBER: _ClassVar[int]
    user: str
    action: str
    resource: str
    def __init__(self, user: _Optional[str] = ..., action: _Optional[str] = ..., resource: _Optional[str] = ...) -> None: ...

class TestRightResponse(_message.Message):
    __slots__ = ("error", "allowed", "rule")
    ERROR_FIELD_NUMBER: _ClassVar[int]
    ALLOWED_FIELD_NUMBER: _ClassVar[int]
    RULE_FIELD_NUMBER: _ClassVar[int]
    error: _error_pb2.Error
    allowed: bool
    rule: AclRule
    def __init__(self, error: _Optional[_Union[_error_pb2.Error, _Mapping]] = ..., allowed: _Optional[bool] = ..., rule: _Optional[_Union[AclRule, _Mapping]] = ...) -> None: ...

class DelegateTokenRequest(_message.Message):
    __slots__ = ("rules", "ttl_ms")
    RULES_FIELD_NUMBER: _ClassVar[int]
    TTL_MS_FIELD_NUMBER: _ClassVar[int]
    rules: _containers.RepeatedCompositeFieldContainer[AclRule]
    ttl_ms: int
    def __init__(self, rules: _Optional[_Iterable[_Union[AclRule, _Mapping]]] = ..., ttl_ms: _Optional[int] = ...) -> None: ...

class DelegateTokenResponse(_message.Message):
    __slots__ = ("error", "token", "expires_ms")
    ERROR_FIELD_NUMBER: _ClassVar[int]
    TOKEN_FIELD_NUMBER: _ClassVar[int]
    EXPIRES_MS_FIELD_NUMBER: _ClassVar[int]
    error: _error_pb2.Error
    token: str
    expires_ms: int
    def __init__(self, error: _Optional[_Union[_error_pb2.Error, _Mapping]] = ..., token: _Optional[str] = ..., expires_ms: _Optional[int] = ...) -> None: ...

class MakeRocketmqSecretRequest(_message.Message):
    __slots__ = ("name",)
    NAME_FIELD_NUMBER: _ClassVar[int]
    name: str
    def __init__(self, name: _Optional[str] = ...) -> None: ...

class MakeRocketmqSecretResponse(_message.Message):
    __slots__ = ("error", "access_key", "secret")
    ERROR_FIELD_NUMBER: _ClassVar[int]
    ACCESS_KEY_FIELD_NUMBER: _ClassVar[int]
    SECRET_FIELD_NUMBER: _ClassVar[int]
    error: _error_pb2.Error
    access_key: str
    secret: str
    def __init__(self, error: _Optional[_Union[_error_pb2.Error, _Mapping]] = ..., access_key: _Optional[str] = ..., secret: _Optional[str] = ...) -> None: ...

class RemoveRocketmqSecretRequest(_message.Message):
    __slots__ = ("name",)
    NAME_FIELD_NUMBER: _ClassVar[int]
    name: str
    def __init__(self, name: _Optional[str] = ...) -> None: ...

class RemoveRocketmqSecretResponse(_message.Message):
    __slots__ = ("error",)
    ERROR_FIELD_NUMBER: _ClassVar[int]
    error: _error_pb2.Error
    def __init__(self, error: _Optional[_Union[_error_pb2.Error, _Mapping]] = ...) -> None: ...

class ForwardedCaller(_message.Message):
    __slots__ = ("user", "since", "token", "policy_index")
    USER_FIELD_NUMBER: _ClassVar[int]
    SINCE_FIELD_NUMBER: _ClassVar[int]
    TOKEN_FIELD_NUMBER: _ClassVar[int]
    POLICY_INDEX_FIELD_NUMBER: _ClassVar[int]
    user: str
    since: int
    token: bytes
    policy_index: int
    def __init__(self, user: _Optional[str] = ..., since: _Optional[int] = ..., token: _Optional[bytes] = ..., policy_index: _Optional[int] = ...) -> None: ...
