"""Runs a program that is not asynchronous in a simulated run.

    thread of the program    | runs |  waits for the answer   | runs |  waits ...
    simulation               | waits |  answers the question  | waits |  ...

The program runs in a thread, and the simulation waits while that thread runs. Whatever the program wants from the
cluster is a question: a coroutine that the simulation runs, in simulated time. So only one of the two threads runs at a
time, and a run depends on its seed only.
"""

from __future__ import annotations

import _thread  # a simulated run refuses threads that are begun with `threading`
from collections.abc import Awaitable, Callable
from queue import SimpleQueue
from typing import Any, Generic, TypeVar

T = TypeVar("T")
R = TypeVar("R")


class ProgramEndedError(BaseException):
    """Raised in the program when its process ends. No `except Exception` catches it."""


class SyncProgram(Generic[T]):
    """One run of a program. The program gets the SyncProgram, and asks with `ask`."""

    def __init__(self, program: Callable[[SyncProgram[T]], T]) -> None:
        self._program = program
        # From the program: a question, or None at its end. To the program: the result and the error of an answer.
        self._questions: SimpleQueue[Callable[[], Awaitable[Any]] | None] = SimpleQueue()
        self._answers: SimpleQueue[tuple[Any, BaseException | None]] = SimpleQueue()
        self._has_ended = False
        self._result: list[T] = []
        self._error: BaseException | None = None

    async def run(self) -> T:
        """Run the program to its end, and return what it returns. If this call is cancelled, the program ends like a
        program that is killed: it asks nothing more."""
        _thread.start_new_thread(self._run, ())
        is_over = False
        try:
            while (question := self._questions.get()) is not None:
                self._answers.put(await _answer(question))
            is_over = True
        finally:
            if not is_over:
                self._end()
        if self._error is not None:
            raise self._error
        return self._result[0]

    def ask(self, question: Callable[[], Awaitable[R]]) -> R:
        """Let the simulation run this coroutine, and return its result. Called by the program."""
        if self._has_ended:
            raise ProgramEndedError
        self._questions.put(question)
        result, error = self._answers.get()
        if error is not None:
            raise error
        answer: R = result
        return answer

    def _run(self) -> None:
        try:
            self._result.append(self._program(self))
        except BaseException as error:
            self._error = error
        self._questions.put(None)

    def _end(self) -> None:
        """End the thread, which waits for an answer."""
        self._has_ended = True
        self._answers.put((None, ProgramEndedError()))
        while self._questions.get() is not None:
            pass


async def _answer(question: Callable[[], Awaitable[Any]]) -> tuple[Any, BaseException | None]:
    try:
        return await question(), None
    except Exception as error:
        return None, error
