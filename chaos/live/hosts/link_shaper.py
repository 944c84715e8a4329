"""Delays, reorders, duplicates or slows down the packets between nodes. The packets of a shaped link go through this
process.

Some kernels have no netem, so this module works as a router instead. While a link is shaped, the sending node routes
packets for the other node into a TUN device. This process reads the packets from the device, and writes each packet
into the TUN device of the receiving node when the packet is due. TCP connections then see a bad network: packets
arrive late, out of order or twice, lost packets are sent again, and queues overflow.

    node 1 ── route to node 2 ──> shape0 ══ [ heap by due time ] ══ shape0 ──> node 2
      (its namespace)                        (this process)           (its namespace)

Other links are not changed. The router counts the delayed, reordered, duplicated and dropped packets, as evidence.
"""

from __future__ import annotations

import fcntl
import heapq
import os
import selectors
import socket
import struct
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from random import Random

from chaos.errors import ChaosError
from chaos.live.hosts.link_rules import NodeLink
from chaos.live.hosts.namespace import Namespace

_DEVICE = "shape0"
_TUNSETIFF = 0x400454CA
_TUN, _NO_INFO = 0x0001, 0x1000  # IP packets, with nothing in front of them
_MOST_BYTES = 1 << 16
# The largest number of waiting packets for each node. Further packets are dropped, as in any router.
_MOST_WAITING = 2_000
# The extra delay of a packet that other packets should overtake.
_LATER_S = 0.02
_IDLE_S = 0.05


@dataclass(frozen=True, slots=True)
class LinkShape:
    """Describes what happens to the packets of a link. The shares of packets are numbers between 0 and 1. If
    `bytes_per_s` is 0, the rate has no limit."""

    delay_ms: float = 0.0
    jitter_ms: float = 0.0
    reorder: float = 0.0
    duplicate: float = 0.0
    bytes_per_s: int = 0

    def __str__(self) -> str:
        said = [
            f"{self.delay_ms:g} ms late" * bool(self.delay_ms),
            f"give or take {self.jitter_ms:g} ms" * bool(self.jitter_ms),
            f"{self.reorder:.0%} overtaken" * bool(self.reorder),
            f"{self.duplicate:.0%} doubled" * bool(self.duplicate),
            f"at most {self.bytes_per_s:,} bytes/s" * bool(self.bytes_per_s),
        ]
        return ", ".join(filter(None, said))


@dataclass(order=True, slots=True)
class _Packet:
    due: float
    number: int
    target: int = field(compare=False)
    data: bytes = field(compare=False)


class LinkShaper:
    """Delays, drops and repeats the packets of a run's links. `namespace(node)` returns None while the node has no
    namespace. `address(node)` returns the node's IP address.
    """

    def __init__(
        self, namespace: Callable[[int], Namespace | None], address: Callable[[int], str], random: Random
    ) -> None:
        self._namespace = namespace
        self._address = address
        self._random = random
        self._links: tuple[NodeLink, ...] = ()
        self._shape = LinkShape()
        self._devices: dict[int, int] = {}
        self._router: _Router | None = None

    def set(self, links: Iterable[NodeLink], shape: LinkShape) -> None:
        """Shape the links in `links`, and stop shaping all other links."""
        self.heal()
        self._links, self._shape = tuple(links), shape
        nodes = sorted({node for link in self._links for node in (link.source, link.target)})
        for node in nodes:
            self._open(node)
        addresses = {socket.inet_aton(self._address(node)): node for node in nodes}
        self._router = _Router(self._devices, addresses, shape, self._random)
        self._router.start()
        for link in self._links:
            self._route(link)

    def heal(self) -> str:
        """Stop shaping links. Return a sentence about the changed packets, or "" if no link was
        shaped."""
        self._links = ()
        for node in list(self._devices):  # the routes of a device are removed with it
            self._close(node)
        router, self._router = self._router, None
        return router.stop() if router is not None else ""

    def apply(self, node: int) -> None:
        """Shape the links of this node again, after its namespace was created again."""
        if node in self._devices:
            self._close(node)
            self._open(node)
            for link in self._links:
                if link.source == node:
                    self._route(link)

    def _open(self, node: int) -> None:
        namespace = self._namespace(node)
        if namespace is None:
            return
        self._devices[node] = namespace.call(_open_tun)
        namespace.run("ip", "link", "set", _DEVICE, "mtu", "1500", "up")
        for device in ("all", _DEVICE):  # packets return through another device
            namespace.run("sysctl", "-qw", f"net.ipv4.conf.{device}.rp_filter=0")

    def _close(self, node: int) -> None:
        os.close(self._devices.pop(node))

    def _route(self, link: NodeLink) -> None:
        namespace = self._namespace(link.source)
        if namespace is None:
            return
        to, own = self._address(link.target), self._address(link.source)
        with suppress(ChaosError):  # the node may have just ended
            namespace.run("ip", "route", "replace", f"{to}/32", "dev", _DEVICE, "src", own)


def _open_tun() -> int:
    device = os.open("/dev/net/tun", os.O_RDWR | os.O_NONBLOCK)
    fcntl.ioctl(device, _TUNSETIFF, struct.pack("16sH", _DEVICE.encode(), _TUN | _NO_INFO))
    return device


class _Router:
    """Reads packets from all devices and writes each one to the device of its target when it is due."""

    def __init__(self, devices: dict[int, int], addresses: dict[bytes, int], shape: LinkShape, random: Random) -> None:
        self._devices = devices  # the caller may change this mapping while the router runs
        self._addresses = addresses
        self._shape = shape
        self._random = random
        self._waiting: list[_Packet] = []
        # By link: when the line is free for the next packet.
        self._free_at: dict[tuple[int, int], float] = {}
        self._count = Counter[str]()
        self._numbers = 0
        self._stopping = False
        self._thread = threading.Thread(target=self._run, name="link shaper", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> str:
        self._stopping = True
        self._thread.join()
        counts = ", ".join(f"{count} packets {what}" for what, count in sorted(self._count.items()))
        return counts or "no packets"

    def _run(self) -> None:
        while not self._stopping:
            self._wait()
            for source, device in list(self._devices.items()):
                self._take(source, device)
            self._deliver(time.monotonic())

    def _wait(self) -> None:
        due = self._waiting[0].due - time.monotonic() if self._waiting else _IDLE_S
        with selectors.DefaultSelector() as selector, suppress(ValueError, OSError):
            for device in list(self._devices.values()):
                selector.register(device, selectors.EVENT_READ)
            selector.select(max(0.0, min(due, _IDLE_S)))

    def _take(self, source: int, device: int) -> None:
        """Read all packets that the device has."""
        with suppress(OSError):  # no more packets (BlockingIOError), or the device was closed
            while True:
                data = os.read(device, _MOST_BYTES)
                target = self._addresses.get(data[16:20])
                if target is not None and data[0] >> 4 == 4:
                    self._plan(source, target, data)

    def _plan(self, source: int, target: int, data: bytes) -> None:
        shape, random, now = self._shape, self._random, time.monotonic()
        if len(self._waiting) >= _MOST_WAITING * len(self._devices):
            self._count["dropped by a full queue"] += 1
            return
        due = now + max(0.0, shape.delay_ms + random.uniform(-1, 1) * shape.jitter_ms) / 1000
        if shape.bytes_per_s:
            due = max(due, self._free_at.get((source, target), 0.0))
            self._free_at[source, target] = due + len(data) / shape.bytes_per_s
        if random.random() < shape.reorder:
            due += _LATER_S
            self._count["overtaken"] += 1
        if random.random() < shape.duplicate:
            self._push(due, target, data)
            self._count["doubled"] += 1
        self._push(due, target, data)

    def _push(self, due: float, target: int, data: bytes) -> None:
        self._numbers += 1
        heapq.heappush(self._waiting, _Packet(due, self._numbers, target, data))

    def _deliver(self, now: float) -> None:
        while self._waiting and self._waiting[0].due <= now:
            packet = heapq.heappop(self._waiting)
            device = self._devices.get(packet.target)
            if device is None:
                continue
            with suppress(OSError):
                os.write(device, packet.data)
                self._count["led through"] += 1
