"""Starts the programs around the official RocketMQ clients, and talks to them (protocol: clients/README.md)."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import tempfile
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any, TypeAlias

from tests.cluster.waiter import until

Told: TypeAlias = dict[str, Any]

_REPOSITORY = Path(__file__).resolve().parents[2]
BUILT = _REPOSITORY / "build" / "rocketmq"
SOURCES = Path(__file__).resolve().parent / "clients"
# The heap of the Java program, so that several fit on a machine. Java's client has as many threads as processors, and
# with few threads it hangs more easily.
_JAVA = ("java", "-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-XX:ActiveProcessorCount=2")
COMMANDS: Mapping[str, tuple[str, ...]] = {
    "python": (str(BUILT / "python" / "bin" / "python"), str(SOURCES / "python" / "program.py")),
    "node": ("node", str(BUILT / "node" / "program.mjs")),
    "java": (*_JAVA, "-cp", f"{BUILT / 'java'}/*", "rocketmqclient.Program"),
    "rust": (str(BUILT / "rust" / "program"),),
}
LANGUAGES = tuple(COMMANDS)
# A longest command is a receive that polls, or the start of a client against a server that is starting, too.
_ANSWER_S = 60.0
# Lines of output: a receive may bring 32 messages of some KiB.
_LINE_BYTES = 64 * 1024 * 1024
_END_S = 5.0
_LOG_TAIL = 2000


class ProgramError(Exception):
    """A client raised an error. `code` is the status that the server answered, if there was one."""

    def __init__(self, text: str, code: int | None) -> None:
        super().__init__(text)
        self.code = code


def missing(language: str) -> str | None:
    """Return why the program of this language cannot be started, or None if it can."""
    if (BUILT / f"{language}.skipped").exists():
        return (BUILT / f"{language}.skipped").read_text().strip()
    if not (BUILT / language).exists():
        return f"the RocketMQ client program for {language} is not built: run `make rocketmq-clients`"
    return None


@dataclass(slots=True)
class ClientProgram:
    """One running program. Its clients have names; `call` runs a command and returns the answer."""

    language: str
    process: asyncio.subprocess.Process
    log: Path
    # Everything that a push consumer or a `drain` with events reported, in order.
    events: list[Told] = field(default_factory=list)
    _answers: dict[int, asyncio.Future[Told]] = field(default_factory=dict)
    _numbers: Any = field(default_factory=lambda: count(1))
    _reader: asyncio.Task[None] | None = None

    async def call(self, do: str, *, answer_s: float = _ANSWER_S, **fields: Any) -> Told:
        """Run a command and return its answer. Raise ProgramError if the client raised an error."""
        number = next(self._numbers)
        answer: asyncio.Future[Told] = asyncio.get_running_loop().create_future()
        self._answers[number] = answer
        stdin = self.process.stdin
        assert stdin is not None
        stdin.write(json.dumps({"id": number, "do": do, **fields}).encode() + b"\n")
        try:
            async with asyncio.timeout(answer_s):
                told = await answer
        except TimeoutError:
            raise ProgramError(
                f"{self.language}: no answer to {do} within {answer_s:g} s. {self.words()}", None
            ) from None
        finally:
            del self._answers[number]
        if not told["ok"]:
            raise ProgramError(f"{self.language}: {do}: {told['error']}", told.get("code"))
        return told

    def consumed(self, client: str) -> list[Told]:
        """Return the messages that this consumer reported as handled."""
        return [told["message"] for told in self.events if told.get("client") == client and told["success"]]

    async def wait_for(self, condition: Callable[[], Any], what: str, deadline_s: float = _ANSWER_S) -> Any:
        """Wait until `condition()` is true, for example about `consumed`."""
        return await until(condition, f"{self.language}: {what}", deadline_s=deadline_s)

    def words(self) -> str:
        """Return the end of what the program wrote for people."""
        return f"Its last words: {self.log.read_text(errors='replace')[-_LOG_TAIL:]}"

    async def _read(self) -> None:
        assert self.process.stdout is not None
        async for line in self.process.stdout:
            told = json.loads(line)
            if "event" in told:
                self.events.append(told)
            elif (answer := self._answers.get(told["id"])) and not answer.done():
                answer.set_result(told)
        for answer in self._answers.values():
            if not answer.done():
                answer.set_exception(ProgramError(f"{self.language}: the program ended. {self.words()}", None))


@contextlib.asynccontextmanager
async def running(language: str, environment: Mapping[str, str] | None = None) -> AsyncIterator[ClientProgram]:
    """Run the program of a language, and end it afterwards. The clients write their logs below a temporary home."""
    with tempfile.TemporaryDirectory(prefix=f"rocketmq-{language}-") as home:
        log = Path(home) / "stderr"
        command = list(COMMANDS[language])
        if language == "java":
            command.insert(1, f"-Duser.home={home}")
        with log.open("wb") as errors:
            process = await asyncio.create_subprocess_exec(
                *command,
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=errors,
                env=os.environ | {"HOME": home} | dict(environment or {}),
                limit=_LINE_BYTES,
            )
        program = ClientProgram(language, process, log)
        program._reader = asyncio.create_task(program._read())
        try:
            yield program
        finally:
            await _end(program)


async def _end(program: ClientProgram) -> None:
    assert program.process.stdin is not None
    with contextlib.suppress(ConnectionError):
        program.process.stdin.close()
    try:
        await asyncio.wait_for(program.process.wait(), _END_S)
    except TimeoutError:
        program.process.kill()
        await program.process.wait()
    if program._reader:
        await program._reader
