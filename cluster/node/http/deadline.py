"""The deadline of a response. A handler whose response has no end, such as a download, moves it away."""

from __future__ import annotations

import asyncio

from aiohttp import web

# The time at which the connection of this request is closed if its response has not been taken.
DEADLINE = web.RequestKey("deadline", asyncio.Timeout)
