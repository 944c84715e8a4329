"""The log output of a node on standard error: lines of text, or one JSON object in each line.

Every module uses the standard `logging`. Only this module uses structlog, to format the records.
"""

from __future__ import annotations

import logging
import sys
from typing import Literal

import structlog

from cluster.node.process.recent_log import RecentLog


def set_up_logging(form: Literal["text", "json"], level: str) -> RecentLog:
    """Send all log records of this process to standard error. Replace all earlier handlers of the root logger. Return
    the newest lines."""
    renderer: structlog.types.Processor
    if form == "json":
        renderer = structlog.processors.JSONRenderer()
    else:
        renderer = structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty(), pad_level=False)
    handler, recent = logging.StreamHandler(sys.stderr), RecentLog()
    recent.setFormatter(_formatter(structlog.dev.ConsoleRenderer(colors=False, pad_level=False)))
    handler.setFormatter(_formatter(renderer))
    root = logging.getLogger()
    root.handlers = [handler, recent]
    root.setLevel(level.upper())
    return recent


def _formatter(renderer: structlog.types.Processor) -> logging.Formatter:
    return structlog.stdlib.ProcessorFormatter(
        foreign_pre_chain=[
            structlog.stdlib.add_log_level,
            structlog.stdlib.add_logger_name,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.format_exc_info,
            _without_false_lines,
        ],
        processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, renderer],
    )


def _without_false_lines(_: object, __: str, event: structlog.typing.EventDict) -> structlog.typing.EventDict:
    """Indent all lines of an event but the first one, and escape control characters. Callers choose some of the words
    in log lines, and could otherwise write lines that look like lines of the node."""
    lines = str(event["event"]).split("\n")
    event["event"] = "\n    ".join("".join(map(_escaped, line)) for line in lines)
    return event


def _escaped(character: str) -> str:
    return character if character.isprintable() else ascii(character)[1:-1]
