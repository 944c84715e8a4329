"""Whole stories as text, with what every node did: scenarios/*.txt.

A file is a sequence of blocks. Each has lines of commands, a line `----`, and what happened then; a line with # is a
comment. To write the expected part anew after a change, look at the difference and believe it or not:

    LEDGERMQ_REWRITE_SCENARIOS=1 python -m pytest tests/raft/test_raft_scenarios.py

Commands:
    nodes N                      begin with N empty nodes, all of them voters; `log` lines may come before it
    log NODE TERM...             the terms of the entries that NODE begins with
    tick NODE [TIMES]            let time pass for one node; what it sends stays on the wire
    entries-per-append N         how much one Append may carry
    deliver                      deliver everything until the wire is empty
    deliver-until TEXT           deliver one by one until a line with that text has happened
    run TICKS                    that many times: tick every node in turn and deliver everything
    lose [TEXT]                  drop all that is on the wire, or what reads so
    isolate NODE...              lose all between these and the others, until `heal`
    propose NODE VALUE...        entries for the leader NODE
    read NODE TOKEN              ask NODE for a read index
    hold NODE                    its saves and flushes wait from now on, until `flush NODE`
    kill NODE, restart NODE      its page cache survives
    power-cut NODE               only what was flushed survives
    unreachable NODE PEER        NODE's stream to PEER broke
    quiet COMMAND...             the same without telling what happened
    status                       what every node is and has
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from network import ENTRY_BYTES, Network, describe

from raft.core import Refusal

SCENARIOS = Path(__file__).parent / "scenarios"
REWRITE = bool(os.environ.get("LEDGERMQ_REWRITE_SCENARIOS"))


class Story:
    def __init__(self) -> None:
        self.logs: dict[int, list[int]] = {}
        self.network = Network(1)

    def command(self, line: str) -> list[str]:
        """Do what the line says; returns what happened."""
        name, *words = line.split()
        if name == "quiet":
            self.command(" ".join(words))
            return []
        self.network.trace.clear()
        try:
            answer: list[str] = getattr(self, name.replace("-", "_"))(*words) or []
        except Refusal as refusal:
            answer = [f"refused: {refusal}"]
        return [*self.network.trace, *answer]

    def log(self, node: str, *terms: str) -> None:
        self.logs[int(node)] = [int(term) for term in terms]

    def nodes(self, count: str) -> None:
        newest = max((terms[-1] for terms in self.logs.values() if terms), default=0)
        numbers = range(1, int(count) + 1)
        self.network = Network(int(count), logs=self.logs, terms=dict.fromkeys(numbers, newest))

    def tick(self, node: str, times: str = "1") -> None:
        self.network.tick(int(node), int(times))

    def deliver(self) -> None:
        self.network.deliver_all()

    def deliver_until(self, *text: str) -> None:
        while not any(" ".join(text) in line for line in self.network.trace):
            self.network.deliver(self.network.wire.pop(0))

    def entries_per_append(self, count: str) -> None:
        self.network.append_bytes = int(count) * ENTRY_BYTES

    def run(self, ticks: str) -> None:
        for _ in range(int(ticks)):
            for node in list(self.network.nodes):
                self.network.tick(node)
            self.network.deliver_all()

    def lose(self, *text: str) -> None:
        lost = " ".join(text)
        self.network.wire = [packet for packet in self.network.wire if lost not in describe(packet.message)]

    def isolate(self, *nodes: str) -> None:
        self.network.isolate(*map(int, nodes))

    def heal(self) -> None:
        self.network.heal()

    def propose(self, node: str, *values: str) -> None:
        self.network.propose(int(node), *values)

    def read(self, node: str, token: str) -> None:
        self.network.read(int(node), int(token))

    def hold(self, node: str) -> None:
        self.network.nodes[int(node)].held = True

    def flush(self, node: str) -> None:
        self.network.nodes[int(node)].held = False
        self.network.flush(int(node))

    def kill(self, node: str) -> None:
        self.network.crash(int(node))

    def power_cut(self, node: str) -> None:
        self.network.crash(int(node), keeps=lambda disk: disk.flushed)

    def restart(self, node: str) -> None:
        self.network.restart(int(node))

    def unreachable(self, node: str, peer: str) -> None:
        self.network.unreachable(int(node), int(peer))

    def status(self) -> list[str]:
        return list(self._status())

    def _status(self) -> Iterator[str]:
        for number in self.network.configuration.voters:
            node = self.network.nodes.get(number)
            if node is None:
                yield f"{number} is down"
                continue
            raft = node.raft
            log = " ".join(f"{entry.value}" if " " not in str(entry.value) else "-" for entry in node.disk.written)
            yield f"{number} {raft.role.value}, term {raft.term}, leader {raft.leader}, commit {raft.commit}: {log}"


def play(text: str) -> str:
    """The same text with what really happened."""
    story, lines, happened, expecting = Story(), [], list[str](), False
    for line in text.splitlines():
        if expecting and line.strip():
            continue
        if line == "----":
            expecting = True
            lines += [line, *happened]
            happened = []
            continue
        if line and not line.startswith("#"):
            happened += story.command(line)
        expecting = False
        lines.append(line)
    return "\n".join(lines) + "\n"


@pytest.mark.parametrize("path", sorted(SCENARIOS.glob("*.txt")), ids=lambda path: path.stem)
def test_scenario(path: Path) -> None:
    expected = path.read_text()
    happened = play(expected)
    if REWRITE:
        path.write_text(happened)
    assert happened == expected or REWRITE


def test_there_are_scenarios_and_all_of_them_expect_something() -> None:
    texts = [path.read_text() for path in SCENARIOS.glob("*.txt")]
    assert len(texts) >= 8
    assert all(re.search(r"^----\n\S", text, re.MULTILINE) for text in texts)


def test_a_scenario_notices_a_difference() -> None:
    text = "nodes 1\ntick 1 10\n----\n1 is leader in term 9\n"
    assert "1 is leader in term 1\n" in play(text)
