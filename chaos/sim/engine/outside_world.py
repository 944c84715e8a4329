"""Keeps the real world out of a simulated run: while the run lasts, project code that reads a clock, randomness or the
environment of the machine, or that starts a thread, a process or a socket, gets an `OutsideWorldError`.

A run must depend only on its seed, so product code gets its clock, randomness and threads from the simulator. Code that
calls `time.monotonic()` by itself works, but its runs differ from day to day.

    caller                                           judged as
    -------------------------------------------------------------------------------------------
    product code or the simulator                    OutsideWorldError
    a library that project code called               OutsideWorldError that names the project code
    logging, metrics, an import                      allowed, because it changes nothing in a run
    code of another thread                           allowed, because a run has one thread

The functions are replaced in their modules. Project code may also have taken a function when it was imported, as with
`from time import monotonic` or `def f(clock=time.monotonic)`. These places are found and replaced as well.
"""

from __future__ import annotations

import datetime
import functools
import os
import random
import secrets
import socket
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from dataclasses import fields, is_dataclass
from types import FrameType, FunctionType, ModuleType, TracebackType
from typing import Any

from grpc.aio import _channel, _server

PROJECT = frozenset({"ledger", "raft", "store", "cluster", "chaos"})
# What these libraries read changes nothing in a run: the times of log lines, and when a metric was made.
_HARMLESS = frozenset({"logging", "prometheus_client", "importlib"})
_CLOCKS = ("time", "monotonic", "perf_counter", "process_time", "thread_time")
_MODULE_FUNCTIONS: tuple[tuple[ModuleType, tuple[str, ...]], ...] = (
    (time, (*_CLOCKS, *(f"{clock}_ns" for clock in _CLOCKS), "clock_gettime", "clock_gettime_ns", "sleep")),
    (
        random,
        (
            *("random", "uniform", "randint", "randrange", "choice", "choices", "shuffle", "sample", "getrandbits"),
            *("randbytes", "expovariate", "gauss", "seed", "_urandom"),
        ),
    ),
    (secrets, ("token_bytes", "token_hex", "token_urlsafe", "randbelow", "randbits", "choice")),
    (uuid, ("uuid1", "uuid4")),
    (os, ("urandom", "getrandom", "fork", "posix_spawn")),
    (socket, ("getaddrinfo", "gethostname")),
)
# A method, and its name in the error.
_METHODS: tuple[tuple[type, str, str], ...] = (
    (type(os.environ), "__getitem__", "os.environ"),
    (type(os.environ), "__iter__", "os.environ"),
    (threading.Thread, "start", "threading.Thread.start"),
    (subprocess.Popen, "__init__", "subprocess.Popen"),
    (socket.socket, "__init__", "socket.socket"),
    (_channel.Channel, "__init__", "grpc.aio.Channel"),
    (_server.Server, "__init__", "grpc.aio.Server"),
)


class OutsideWorldError(BaseException):
    """Raised when project code uses the real world during a simulated run. No `except Exception` catches it."""


class OutsideWorld:
    """A context manager during which the real world is out of reach. `used` has one line for each use, also if the code
    caught the error."""

    def __init__(self) -> None:
        self.used: list[str] = []
        # How to undo the replacements, in order.
        self._undo: list[Callable[[], None]] = []
        self._is_on = False
        self._thread = threading.get_ident()

    def __enter__(self) -> OutsideWorld:
        places = _places(_project_modules())  # before the functions are replaced: it looks for them
        replaced: dict[int, Any] = {id(datetime.datetime): self._watched_datetime()}
        for module, names in _MODULE_FUNCTIONS:
            for name in names:
                if (real := getattr(module, name, None)) is not None:
                    replaced[id(real)] = self._watched(f"{module.__name__}.{name}", real)
                    self._set(module, name, replaced[id(real)])
        for owner, name, told in _METHODS:
            self._set(owner, name, self._watched(told, getattr(owner, name)))
        self._set(random.Random, "seed", self._watched_seed(random.Random.seed))
        for place in places:
            if (watched := replaced.get(id(place.real))) is not None:
                place.put(watched)
                self._undo.append(functools.partial(place.put, place.real))
        self._is_on = True
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._is_on = False
        while self._undo:
            self._undo.pop()()

    def _set(self, owner: Any, name: str, value: Any) -> None:
        self._undo.append(functools.partial(setattr, owner, name, owner.__dict__[name]))
        setattr(owner, name, value)

    def _judge(self, what: str) -> None:
        """Raise OutsideWorldError if project code is the cause of this call."""
        caller = _cause() if self._is_on and threading.get_ident() == self._thread else None
        if caller is not None:
            told = f"{caller} called {what} in a simulated run: take it from the Runtime or the Environment"
            self.used.append(told)
            raise OutsideWorldError(told)

    def _watched(self, what: str, real: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(real)
        def call(*arguments: Any, **named: Any) -> Any:
            self._judge(what)
            return real(*arguments, **named)

        return call

    def _watched_seed(self, real: Callable[..., None]) -> Callable[..., None]:
        @functools.wraps(real)
        def seed(chance: random.Random, a: Any = None, version: int = 2) -> None:
            if a is None and type(chance) is random.Random:
                self._judge("random.Random() without a seed")
            real(chance, a, version)

        return seed

    def _watched_datetime(self) -> type:
        judge = self._judge

        class WatchedDatetime(datetime.datetime, metaclass=_TakenForDatetime):
            @classmethod
            def now(cls, tz: datetime.tzinfo | None = None) -> Any:
                judge("datetime.datetime.now")
                return datetime.datetime.now(tz)

            @classmethod
            def utcnow(cls) -> Any:
                judge("datetime.datetime.utcnow")
                return datetime.datetime.utcnow()

        return WatchedDatetime


class _TakenForDatetime(type):
    """The type of a class whose instances are all instances of datetime."""

    def __instancecheck__(cls, instance: object) -> bool:
        return isinstance(instance, datetime.datetime)


class _Place:
    """A place in the project that holds a value that may have to be replaced."""

    def __init__(self, real: Any, put: Callable[[Any], None]) -> None:
        self.real = real
        self.put = put


def _cause() -> str | None:
    """Return the module and line of the project code that is the cause of the present call, or None."""
    frame: FrameType | None = sys._getframe(3)
    while frame is not None:
        name = frame.f_globals.get("__name__", "")
        package = name.partition(".")[0]
        if package in _HARMLESS or name == __name__:
            return None
        if package in PROJECT:
            return f"{name}, line {frame.f_lineno},"
        frame = frame.f_back
    return None


def _project_modules() -> tuple[ModuleType, ...]:
    found = [(name, module) for name, module in [*sys.modules.items()] if name.partition(".")[0] in PROJECT]
    return tuple(module for name, module in found if name != __name__)


@functools.lru_cache(maxsize=1)
def _places(modules: tuple[ModuleType, ...]) -> list[_Place]:
    """Return the places in these modules that hold a function or a class of the real world."""
    real = {id(getattr(module, name, None)) for module, names in _MODULE_FUNCTIONS for name in names} - {id(None)}
    real.add(id(datetime.datetime))
    return [place for module in modules for place in _places_of(module) if id(place.real) in real]


def _places_of(module: ModuleType) -> Iterator[_Place]:
    for name, value in [*vars(module).items()]:
        yield _Place(value, functools.partial(setattr, module, name))
        if getattr(value, "__module__", None) == module.__name__:
            yield from _places_in(value)


def _places_in(value: Any) -> Iterator[_Place]:
    if isinstance(value, FunctionType):
        yield from _defaults_of(value)
    elif isinstance(value, type):
        for name, member in [*vars(value).items()]:
            function = getattr(member, "__func__", getattr(member, "fget", member))
            if isinstance(function, FunctionType):
                yield from _defaults_of(function)
            else:
                yield _Place(member, functools.partial(setattr, value, name))
    elif is_dataclass(value):
        for field in fields(value):
            yield _Place(getattr(value, field.name, None), functools.partial(object.__setattr__, value, field.name))


def _defaults_of(function: FunctionType) -> Iterator[_Place]:
    for number, value in enumerate(function.__defaults__ or ()):
        yield _Place(value, functools.partial(_put_default, function, number))
    named = function.__kwdefaults__ or {}
    for name, value in named.items():
        yield _Place(value, functools.partial(named.__setitem__, name))


def _put_default(function: FunctionType, number: int, value: Any) -> None:
    defaults = [*(function.__defaults__ or ())]
    defaults[number] = value
    function.__defaults__ = tuple(defaults)
