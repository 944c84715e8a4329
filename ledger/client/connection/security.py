"""The security settings of a client: TLS, and the proof of who the client is.

A setting is looked for in three places, the first of which counts: the arguments of the client, the environment, and a
profile. A profile is a named table in a file:

    # ~/.config/ledgermq/profiles.toml
    default = "prod"
    [profiles.prod]
    servers = "queue-1.example.com:9871"
    ca = "/etc/ledgermq/ca.pem"
    user = "billing"
    password_file = "/run/secrets/billing"

Passwords and tokens appear in no text of this module.
"""

from __future__ import annotations

import ipaddress
import os
import re
import ssl
import stat
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from pathlib import Path
from typing import Any, TypedDict

from ledger.client.checked_arguments import checked_path, shown
from ledger.errors import InvalidArgumentError
from ledger.local_socket import is_socket

BOOTSTRAP_VARIABLE = "LEDGERMQ_BOOTSTRAP"
PROFILE_VARIABLE = "LEDGERMQ_PROFILE"
PROFILE_FILE_VARIABLE = "LEDGERMQ_PROFILE_FILE"
DEFAULT_PROFILE_FILE = Path("~/.config/ledgermq/profiles.toml")

# The first certificate of a file decides, because gRPC reads the certificates up to the first one that is broken. gRPC
# also reads OpenSSL's TRUSTED CERTIFICATE, which Python's `ssl` cannot read from memory.
_CERTIFICATE = re.compile(
    rb"^-----BEGIN (?P<kind>TRUSTED |X509 |)CERTIFICATE-----.*?^-----END (?P=kind)CERTIFICATE-----",
    re.DOTALL | re.MULTILINE,
)
_PRIVATE_KEY = re.compile(rb"-----BEGIN ([A-Z0-9]+ )*PRIVATE KEY-----")


class SecurityOptions(TypedDict, total=False):
    """The security arguments of every client, all optional:

        tls                 True: use TLS. Default: True if `ca` or `client_certificate` is given
        ca                  file with the certificates of the authorities that sign the nodes' certificates (PEM).
                            Default: the authorities of the system
        client_certificate  file with the certificate of this client, which names its user (PEM)
        client_key          file with the key of `client_certificate`
        user, password      the user and its password (SCRAM-SHA-256)
        password_file       file with the password on its first line; it is read again for each new connection
        token               a delegated token, in place of user and password
        profile             the name of a profile with these settings; "": no profile, not even the default one

    Environment: LEDGERMQ_TLS=1, LEDGERMQ_CA, LEDGERMQ_CLIENT_CERTIFICATE, LEDGERMQ_CLIENT_KEY, LEDGERMQ_USER,
    LEDGERMQ_PASSWORD, LEDGERMQ_PASSWORD_FILE, LEDGERMQ_TOKEN, LEDGERMQ_PROFILE.
    """

    tls: bool | None
    ca: str | Path | None
    client_certificate: str | Path | None
    client_key: str | Path | None
    user: str | None
    password: str | None
    password_file: str | Path | None
    token: str | None
    profile: str | None


@dataclass(frozen=True, slots=True)
class Security:
    """The checked security settings of one client. The default is a client without TLS that proves nothing."""

    tls: bool = False
    ca: Path | None = None
    client_certificate: Path | None = None
    client_key: Path | None = None
    user: str = ""
    password: str = field(default="", repr=False)
    password_file: Path | None = None
    token: str = field(default="", repr=False)

    @property
    def proves(self) -> bool:
        """Return True if this client proves who it is on each connection."""
        return bool(self.user or self.token or self.client_certificate)

    def current_password(self) -> str:
        """Return the password, from its file if there is one. Raises InvalidArgumentError."""
        if self.password_file is None:
            return self.password
        return read_file(self.password_file, "password_file").decode(errors="replace").split("\n", 1)[0].rstrip("\r")


NONE = Security()


def security_of(
    options: Mapping[str, Any], servers: Iterable[str], environment: Mapping[str, str] = os.environ
) -> Security:
    """Return the settings from arguments, environment and profile, checked. Raises InvalidArgumentError, or TypeError
    for an argument that no client has."""
    check_names(options)
    given = {name: value for name, value in options.items() if value is not None}
    variables = _from_environment(environment)
    profile = str(given.pop("profile", environment.get(PROFILE_VARIABLE, "")))
    stored = {} if options.get("profile") == "" else profile_of(profile, environment)
    merged: dict[str, Any] = {**stored}
    for layer in (variables, given):
        # A proof is taken whole from one place: a user of the environment must not meet the password of a profile.
        if layer.keys() & {"user", "token"}:
            for name in ("user", "password", "password_file", "token"):
                merged.pop(name, None)
        elif layer.keys() & {"password", "password_file"}:
            merged.pop("password", None)
            merged.pop("password_file", None)
        merged.update(layer)
    merged.pop("servers", None)
    return _checked(merged, servers)


def servers_of(options: Mapping[str, Any], environment: Mapping[str, str] = os.environ) -> str | Sequence[str]:
    """Return the addresses of the nodes for a client that names none: from the variable LEDGERMQ_BOOTSTRAP, or from the
    profile. Raises InvalidArgumentError if neither has addresses."""
    if given := environment.get(BOOTSTRAP_VARIABLE, "").strip():
        return given
    profile = options.get("profile")
    if profile is None:
        profile = environment.get(PROFILE_VARIABLE, "")
    stored = {} if options.get("profile") == "" else profile_of(profile, environment)
    servers: str | Sequence[str] = stored.get("servers", "")
    if not servers:
        raise InvalidArgumentError(
            'No cluster is named: give `bootstrap_servers="host:port"`, set the variable '
            f"{BOOTSTRAP_VARIABLE}, or use a profile that has `servers`."
        )
    return servers


def check_names(options: Mapping[str, Any]) -> None:
    """Raise TypeError if an argument is none of `SecurityOptions`."""
    known = SecurityOptions.__annotations__
    for name in options:
        if name not in known:
            close = get_close_matches(name, known, n=1)
            raise TypeError(f"there is no argument {name!r}" + (f"; did you mean {close[0]!r}?" if close else ""))


def profile_file(environment: Mapping[str, str] = os.environ) -> Path:
    return Path(environment.get(PROFILE_FILE_VARIABLE) or DEFAULT_PROFILE_FILE).expanduser()


def read_profiles(path: Path) -> dict[str, Any]:
    """Return the content of a profile file; empty if there is none. Raises InvalidArgumentError."""
    try:
        content = tomllib.loads(path.read_text(encoding="utf-8"))
        mode = path.stat().st_mode
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise InvalidArgumentError(f"The profile file {path} cannot be read: {error.strerror}.") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InvalidArgumentError(f"The profile file {path} is not TOML: {error}.") from error
    profiles = content.get("profiles", {})
    if not isinstance(profiles, dict) or not all(isinstance(each, dict) for each in profiles.values()):
        raise InvalidArgumentError(f"The profile file {path} needs tables such as [profiles.prod].")
    secret = any({"password", "token"} & each.keys() for each in profiles.values())
    if secret and stat.S_IMODE(mode) & 0o077:
        raise InvalidArgumentError(f"Others can read {path}, which has a password: run `chmod 600 {path}`.")
    return content


def profile_of(name: str, environment: Mapping[str, str] = os.environ) -> dict[str, Any]:
    """Return the settings of a profile. Without a name, return those of the default profile, or none. Raises
    InvalidArgumentError."""
    path = profile_file(environment)
    content = read_profiles(path)
    profiles = content.get("profiles", {})
    chosen = name or content.get("default", "")
    if not chosen:
        return {}
    if chosen not in profiles:
        known = ", ".join(sorted(profiles)) or "none"
        raise InvalidArgumentError(f"There is no profile {chosen!r} in {path}: the profiles are {known}.")
    settings = dict(profiles[chosen])
    strange = sorted(settings.keys() - SecurityOptions.__annotations__.keys() - {"servers"})
    if strange:
        raise InvalidArgumentError(f"Profile {chosen!r} in {path} has the unknown setting {strange[0]!r}.")
    settings.pop("profile", None)
    return settings


def read_file(path: Path, setting: str) -> bytes:
    """Return the bytes of a file that a setting names. Raises InvalidArgumentError."""
    try:
        return path.expanduser().read_bytes()
    except OSError as error:
        raise InvalidArgumentError(f"`{setting}`: {path} cannot be read: {error.strerror}.") from error


def _from_environment(environment: Mapping[str, str]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name in SecurityOptions.__annotations__.keys() - {"profile"}:
        text = environment.get(f"LEDGERMQ_{name.upper()}", "")
        if text:
            found[name] = text if name != "tls" else text.lower() in ("1", "true", "yes", "on")
    return found


def _checked(settings: Mapping[str, Any], servers: Iterable[str]) -> Security:
    values = {name: value for name, value in settings.items() if value not in (None, "")}
    for name in values.keys() & {"ca", "client_certificate", "client_key", "password_file"}:
        values[name] = checked_path(f"`{name}`", values[name])
    for name in sorted(values.keys() & {"user", "password", "token"}):
        if not isinstance(values[name], str):  # the text does not show it, because it may be a secret
            raise InvalidArgumentError(f"`{name}` must be a str, not {type(values[name]).__name__}.")
    tls = values.pop("tls", None)
    if tls is not None and not isinstance(tls, bool):
        raise InvalidArgumentError(f"`tls` must be True or False; it is {shown(tls)}.")
    security = Security(**values)
    if (security.client_certificate is None) != (security.client_key is None):
        raise InvalidArgumentError("Give `client_certificate` and `client_key` together: both or none.")
    if security.token and security.user:
        raise InvalidArgumentError("Give `token`, or `user` with a password: not both.")
    if security.user and not (security.password or security.password_file):
        raise InvalidArgumentError(f"User {security.user} has no password here: give `password` or `password_file`.")
    if not security.user and (security.password or security.password_file):
        raise InvalidArgumentError("There is a password without a user: give `user`.")
    wants_tls = security.ca is not None or security.client_certificate is not None
    if tls is False and wants_tls:
        raise InvalidArgumentError("`tls` is False, and `ca` or `client_certificate` is given: leave `tls` out.")
    if tls is None and not wants_tls and security.proves and not all(map(is_loopback, servers)):
        raise InvalidArgumentError(
            "The client would prove who it is over a network without TLS: give `ca`, or `tls=True` for the authorities "
            "of the system, or `tls=False` to accept that others can read and change the traffic."
        )
    security = replace(security, tls=wants_tls if tls is None else bool(tls))
    for name in ("ca", "client_certificate", "client_key", "password_file"):
        if (path := getattr(security, name)) is not None:
            _check_content(read_file(path, name), name, path)
    return security


def _check_content(content: bytes, setting: str, path: Path) -> None:
    """Raise InvalidArgumentError if a file is not PEM and the setting needs PEM."""
    if setting in ("ca", "client_certificate") and not _has_certificate(content):
        what = "the authority's certificate" if setting == "ca" else "the certificate of this client"
        raise InvalidArgumentError(f"`{setting}`: {path} has no certificate in PEM form: give the file with {what}.")
    if setting == "client_key" and not _PRIVATE_KEY.search(content):
        raise InvalidArgumentError(
            f"`{setting}`: {path} has no private key in PEM form: give the file with the key of `client_certificate`."
        )


def _has_certificate(content: bytes) -> bool:
    found = _CERTIFICATE.search(content)
    if found is None:
        return False
    if found["kind"] == b"TRUSTED ":
        return True
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_verify_locations(cadata=found[0].decode("ascii"))
    except (ssl.SSLError, ValueError):
        return False
    return True


def is_loopback(address: str) -> bool:
    """Return True if "host:port", or a socket "unix:/path", is on this machine."""
    if is_socket(address):
        return True
    host = address.rpartition(":")[0].strip("[]")
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
