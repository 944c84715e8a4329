"""Writes at most one log line a minute about something that a caller can cause without end."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import Any

LOG_INTERVAL_S = 60.0


class RareLog:
    """Writes at most one line in `LOG_INTERVAL_S`, and says in the next line how many lines were left out."""

    def __init__(self, log: logging.Logger, monotonic_s: Callable[[], float] = time.monotonic) -> None:
        self._logger = log
        self._monotonic_s = monotonic_s
        self._logged_at_s = float("-inf")
        self._left_out = 0

    def warning(self, text: str, *values: Any) -> None:
        self._log(logging.WARNING, text, *values)

    def error(self, text: str, *values: Any, traceback_of: Exception | None = None) -> None:
        self._log(logging.ERROR, text, *values, exc_info=traceback_of)

    def _log(self, level: int, text: str, *values: Any, exc_info: Exception | None = None) -> None:
        now = self._monotonic_s()
        if now - self._logged_at_s < LOG_INTERVAL_S:
            self._left_out += 1
            return
        others = f" ({self._left_out} such lines were left out)" * bool(self._left_out)
        self._logger.log(level, text + others, *values, exc_info=exc_info)
        self._logged_at_s, self._left_out = now, 0
