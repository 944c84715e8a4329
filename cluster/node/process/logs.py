"""The log output of a node on standard error: lines of text, or one JSON object in each line.

Every module uses the standard `logging`. Only this module uses structlog, to format the records.
"""

from __future__ import annotations

import logging
import sys
from typing import Literal

import structlog


def set_up_logging(form: Literal["text", "json"], level: str) -> None:
    """Send all log records of this process to standard error. Replace all earlier handlers of the root logger."""
    renderer: structlog.types.Processor
    if form == "json":
        renderer = structlog.processors.JSONRenderer()
    else:
        renderer = structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty(), pad_level=False)
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=[
                structlog.stdlib.add_log_level,
                structlog.stdlib.add_logger_name,
                structlog.processors.TimeStamper(fmt="iso", utc=True),
                structlog.processors.format_exc_info,
            ],
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, renderer],
        )
    )
    root = logging.getLogger()
    root.handlers = [handler]
    root.setLevel(level.upper())
