"""A gRPC channel with TLS that follows a change of the authorities it trusts.

gRPC reads the authorities once, when a channel is made. So during a rotation of the authority, a channel that is older
than the new authority would refuse a node with a new certificate for ever. `RenewedChannel` makes a new channel for the
calls that begin after a change. Calls and streams that have begun stay on the old channel.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any

import grpc
from grpc import aio

# Old channels that stay open for their calls. Authorities change rarely.
MAX_OLD = 2


class RenewedChannel(aio.Channel):
    """`make` returns a new channel. `version` returns a value that changes when a new channel is needed, or None if
    nobody knows at the moment."""

    def __init__(self, make: Callable[[], aio.Channel], version: Callable[[], Hashable]) -> None:
        self._make = make
        self._version = version
        self._known = version()
        self._channels = [make()]

    def current(self) -> aio.Channel:
        """Return the channel for the next call."""
        now = self._version()
        if now is not None and now != self._known:
            self._channels.append(self._make())
            self._known = now
            del self._channels[: -1 - MAX_OLD]  # gRPC closes a channel that nobody uses
        return self._channels[-1]

    def unary_unary(self, method: str, *args: Any, **codec: Any) -> Any:
        return self._renewed("unary_unary", method, args, codec)

    def unary_stream(self, method: str, *args: Any, **codec: Any) -> Any:
        return self._renewed("unary_stream", method, args, codec)

    def stream_unary(self, method: str, *args: Any, **codec: Any) -> Any:
        return self._renewed("stream_unary", method, args, codec)

    def stream_stream(self, method: str, *args: Any, **codec: Any) -> Any:
        return self._renewed("stream_stream", method, args, codec)

    async def close(self, grace: float | None = None) -> None:
        channels, self._channels = self._channels, self._channels[-1:]
        for channel in channels:
            await channel.close(grace)

    def get_state(self, try_to_connect: bool = False) -> grpc.ChannelConnectivity:
        return self.current().get_state(try_to_connect)

    async def wait_for_state_change(self, last_observed_state: grpc.ChannelConnectivity) -> None:
        await self.current().wait_for_state_change(last_observed_state)

    async def channel_ready(self) -> None:
        await self.current().channel_ready()

    async def __aenter__(self) -> RenewedChannel:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close(None)

    def _renewed(self, kind: str, method: str, args: tuple[Any, ...], codec: dict[str, Any]) -> Any:
        """Return a function that begins a call on the current channel."""
        known: tuple[aio.Channel, Any] | None = None

        def call(*call_args: Any, **options: Any) -> Any:
            nonlocal known
            channel = self.current()
            if known is None or known[0] is not channel:
                known = channel, getattr(channel, kind)(method, *args, **codec)
            return known[1](*call_args, **options)

        return call
