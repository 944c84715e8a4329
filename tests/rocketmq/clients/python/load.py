"""Puts load on a producer or a simple consumer, and measures it: the commands `flood` and `drain`."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from typing import Any

from rocketmq import Message

_FIRST_ERRORS = 10
_AFTER_ERROR_S = 0.1


class Load:
    """What one command has measured so far, until the last message that was done. Its methods may be called from
    several threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._latencies_ms: list[float] = []
        self._errors: list[str] = []
        self._began, self._cpu = time.perf_counter(), time.process_time()
        self._last = self._began

    def add(self, latency_s: float) -> None:
        with self._lock:
            self._latencies_ms.append(latency_s * 1000)
            self._last = time.perf_counter()

    def fail(self, error: BaseException) -> None:
        with self._lock:
            self._errors.append(f"{type(error).__name__}: {error}")

    @property
    def done(self) -> int:
        with self._lock:
            return len(self._latencies_ms)

    def told(self) -> dict[str, Any]:
        found = sorted(self._latencies_ms) or [0.0]
        return {
            "done": len(self._latencies_ms),
            "seconds": self._last - self._began,
            "latencies_ms": {
                "p50": found[len(found) // 2],
                "p99": found[min(len(found) - 1, len(found) * 99 // 100)],
                "max": found[-1],
            },
            "cpu_s": time.process_time() - self._cpu,
            "errors": self._errors[:_FIRST_ERRORS],
        }


def _goes_on(request: Mapping[str, Any]) -> Callable[[int], bool]:
    """Return a function that tells whether to go on after `done` messages."""
    if "count" in request:
        return lambda done: done < request["count"]
    deadline = time.monotonic() + request["seconds"]
    return lambda _: time.monotonic() < deadline


def flood(producer: Any, request: Mapping[str, Any]) -> dict[str, Any]:
    """Send messages with at most `in_flight` of them unacknowledged. One in flight uses `send`, more `send_async`."""
    load, failed = Load(), []
    in_flight = request.get("in_flight", 1)
    room = threading.Semaphore(in_flight)
    goes_on, number = _goes_on(request), 0

    def sent(answer: Future[Any], number: int, began: float) -> None:
        error = answer.exception()
        if error:
            failed.append(number)
            load.fail(error)
        else:
            load.add(time.perf_counter() - began)
        room.release()

    while goes_on(number):
        message, began = _flooding(request, number), time.perf_counter()
        try:
            if in_flight == 1:
                producer.send(message)
                load.add(time.perf_counter() - began)
            else:
                room.acquire()
                answer = producer.send_async(message)
                answer.add_done_callback(lambda answer, number=number, began=began: sent(answer, number, began))
        except Exception as error:  # the client raises errors of its own types
            failed.append(number)
            load.fail(error)
            if in_flight > 1:
                room.release()
        number += 1
    for _ in range(in_flight):
        room.acquire()
    return {**load.told(), "failed": failed}


def _flooding(request: Mapping[str, Any], number: int) -> Message:
    message = Message()
    prefix = request["prefix"]
    message.topic = request["topic"]
    message.body = f"{prefix}-{number}".ljust(request.get("size", 0)).encode()
    if request.get("groups"):
        message.message_group = f"{prefix}-{number % request['groups']}"
    return message


def drain(consumer: Any, request: Mapping[str, Any], acknowledged: Callable[[Message], None] | None) -> dict[str, Any]:
    """Receive and acknowledge messages, in as many threads as `consumers` says. A latency is that of one message: its
    acknowledgement, and its part of the receive."""
    load, goes_on = Load(), _goes_on(request)

    def work() -> None:
        while goes_on(load.done):
            try:
                began = time.perf_counter()
                messages = consumer.receive(request.get("max", 32), request.get("invisible_s", 30)) or []
                part = (time.perf_counter() - began) / max(1, len(messages))
                for message in messages:
                    began = time.perf_counter()
                    consumer.ack(message)
                    load.add(time.perf_counter() - began + part)
                    if acknowledged:
                        acknowledged(message)
            except Exception as error:  # the client raises errors of its own types
                load.fail(error)
                time.sleep(_AFTER_ERROR_S)

    workers = [threading.Thread(target=work) for _ in range(request.get("consumers", 1))]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    return load.told()
