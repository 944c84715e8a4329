"""The language of scenarios/*.txt. Each line is one command to an in-memory network.

    The initial state
    log NODE TERM...             the terms of the entries that NODE starts with
    term NODE TERM               the newest term that NODE knows; without it, the newest of any log
    entries-per-append N         the largest number of entries in one Append
    uncommitted-entries N        the largest number of uncommitted entries that a leader takes
    async-flush                  an entry is held as soon as it is written
    jitter NODE TICKS            ticks that NODE waits longer than the shortest election timeout; default: NODE - 1
    nodes N                      start N nodes, which are all voters; the commands above must come before it

    Time and messages
    tick NODE [TIMES]            let time pass for one node; its messages stay in flight
    stand NODE                   tick NODE until it stands for election
    elect NODE                   tick NODE and deliver everything, until it leads
    run TICKS                    repeat TICKS times: tick every node in turn and deliver everything
    deliver                      deliver messages until none is in flight
    deliver-one TEXT             deliver the first message with this text
    deliver-until TEXT           deliver one by one until an event with this text has happened
    lose [TEXT]                  drop all messages in flight, or those with this text
    set-aside [TEXT]             remove messages from the network and keep them
    bring-back [TEXT]            put kept messages into the network again, behind all others
    repeat [TEXT]                send messages a second time
    reverse                      reverse the order of the messages in flight
    forge MESSAGE                put this message into the network, written like the messages in the output
    cut NODE NODE                lose messages from the first node to the second, until `heal`
    isolate NODE...              lose messages between these nodes and all others, until `heal`
    unreachable NODE PEER        NODE's stream to PEER broke

    Nodes
    propose NODE VALUE...        propose entries to the leader NODE
    burst NODE COUNT             make COUNT proposals of one entry each
    read NODE TOKEN              ask NODE for a read index
    change NODE NODE... [learners NODE...]   the leader NODE appends a configuration of these voters and learners
    join NODE                    start a new node with an empty disk and without a configuration
    transfer NODE TO             the leader NODE hands leadership over to TO
    held-up NODE                 NODE notices that it was held up
    hold NODE                    saves and flushes of NODE wait from now on, until `flush NODE`
    save NODE                    complete the oldest waiting save of NODE
    begin-flush, end-flush NODE  begin or end a flush of all entries that NODE has written
    kill NODE, restart NODE      stop or start NODE; its page cache survives
    power-cut NODE               stop NODE; only flushed entries survive
    restart NODE suspect         start NODE, which may have lost entries that it acknowledged
    put-back NODE COUNT          stop NODE; its log and its vote are as they were when it had COUNT entries

    Output
    quiet COMMAND...             carry out COMMAND without output
    status                       the state of every node; in a log, - is a no-op, [voters | learners] a configuration
    progress NODE                the progress of the followers of the leader NODE
    wire                         the messages in flight

A scenario can do only what a driver and a network can do.
"""

from __future__ import annotations

from collections.abc import Iterator

from raft.core import Configuration, Durable, Refusal, Role
from tests.raft.message_text import parse
from tests.raft.network import ENTRY_BYTES, Entry, Network, Packet, describe


class Story:
    def __init__(self) -> None:
        self.logs: dict[int, list[int]] = {}
        self.terms: dict[int, int] = {}
        self.waits: dict[int, int] = {}
        self.max_uncommitted_bytes = 1 << 20
        self.append_bytes = 1 << 20
        self.is_async = False
        self.aside: list[Packet] = []
        self.network = Network(1)

    def command(self, line: str) -> list[str]:
        """Carry out one line. Return the text of the events that follow from it."""
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

    # -- the initial state

    def log(self, node: str, *terms: str) -> None:
        self.logs[int(node)] = [int(term) for term in terms]

    def term(self, node: str, term: str) -> None:
        self.terms[int(node)] = int(term)

    def entries_per_append(self, count: str) -> None:
        self.append_bytes = self.network.append_bytes = int(count) * ENTRY_BYTES

    def uncommitted_entries(self, count: str) -> None:
        self.max_uncommitted_bytes = int(count) * ENTRY_BYTES

    def async_flush(self) -> None:
        self.is_async = True

    def jitter(self, node: str, ticks: str) -> None:
        self.waits[int(node)] = int(ticks)

    def nodes(self, count: str) -> None:
        newest = max((terms[-1] for terms in self.logs.values() if terms), default=0)
        self.network = Network(
            int(count),
            logs=self.logs,
            terms=dict.fromkeys(range(1, int(count) + 1), newest) | self.terms,
            jitter=lambda node: self.waits.get(node, node - 1),
            max_uncommitted_bytes=self.max_uncommitted_bytes,
            append_bytes=self.append_bytes,
            async_flush=self.is_async,
        )

    # -- time and messages

    def tick(self, node: str, times: str = "1") -> None:
        self.network.tick(int(node), int(times))

    def stand(self, node: str) -> None:
        for _ in range(100):
            if self.network.raft(int(node)).role is Role.PRE_CANDIDATE:
                return
            self.network.tick(int(node))
        raise AssertionError(f"{node} does not stand")

    def elect(self, node: str) -> None:
        self.network.elect(int(node))

    def run(self, ticks: str) -> None:
        for _ in range(int(ticks)):
            for node in list(self.network.nodes):
                self.network.tick(node)
            self.network.deliver_all()

    def deliver(self) -> None:
        self.network.deliver_all()

    def deliver_one(self, *text: str) -> None:
        self.network.deliver(self._take(text)[0])

    def deliver_until(self, *text: str) -> None:
        while not any(" ".join(text) in line for line in self.network.trace):
            self.network.deliver(self.network.wire.pop(0))

    def lose(self, *text: str) -> None:
        self._take(text, at_most=len(self.network.wire))

    def set_aside(self, *text: str) -> None:
        taken = self._take(text, at_most=len(self.network.wire))
        assert taken, f"nothing on the wire reads {' '.join(text)}"
        self.aside += taken

    def bring_back(self, *text: str) -> None:
        back = [packet for packet in self.aside if " ".join(text) in describe(packet.message)]
        assert back, f"nothing that was set aside reads {' '.join(text)}"
        self.aside = [packet for packet in self.aside if packet not in back]
        self.network.wire += back

    def repeat(self, *text: str) -> None:
        self.network.wire += [packet for packet in self.network.wire if " ".join(text) in describe(packet.message)]

    def reverse(self) -> None:
        self.network.wire.reverse()

    def forge(self, *text: str) -> None:
        self.network.wire.append(parse(" ".join(text)))

    def cut(self, sender: str, receiver: str) -> None:
        self.network.cut.add((int(sender), int(receiver)))

    def isolate(self, *nodes: str) -> None:
        self.network.isolate(*map(int, nodes))

    def heal(self) -> None:
        self.network.heal()

    def unreachable(self, node: str, peer: str) -> None:
        self.network.unreachable(int(node), int(peer))

    # -- nodes

    def propose(self, node: str, *values: str) -> None:
        self.network.propose(int(node), *values)

    def burst(self, node: str, count: str) -> None:
        for number in range(1, int(count) + 1):
            self.network.propose(int(node), f"#{number}")

    def read(self, node: str, token: str) -> None:
        self.network.read(int(node), int(token))

    def change(self, node: str, *members: str) -> None:
        border = members.index("learners") if "learners" in members else len(members)
        voters, learners = members[:border], members[border + 1 :]
        self.network.change(int(node), [int(voter) for voter in voters], [int(learner) for learner in learners])

    def join(self, node: str) -> None:
        self.network.join(int(node))

    def transfer(self, node: str, to: str) -> None:
        self.network.transfer(int(node), int(to))

    def held_up(self, node: str) -> None:
        self.network.held_up(int(node))

    def hold(self, node: str) -> None:
        self.network.nodes[int(node)].held = True

    def flush(self, node: str) -> None:
        self.network.nodes[int(node)].held = False
        self.network.flush(int(node))

    def save(self, node: str) -> None:
        self.network.nodes[int(node)].save()
        self.network.nodes[int(node)].settle()

    def begin_flush(self, node: str) -> None:
        self.network.nodes[int(node)].begin_flush()

    def end_flush(self, node: str) -> None:
        self.network.nodes[int(node)].end_flush()
        self.network.nodes[int(node)].settle()

    def kill(self, node: str) -> None:
        self.network.crash(int(node))

    def power_cut(self, node: str) -> None:
        self.network.crash(int(node), keeps=lambda disk: disk.flushed)

    def put_back(self, node: str, count: str) -> None:
        self.network.history.end()
        self.network.crash(int(node), keeps=lambda disk: disk.written[: int(count)])
        disk = self.network.disks[int(node)]
        disk.vote = Durable(disk.written[-1].term)

    def restart(self, node: str, suspect: str = "") -> None:
        self.network.restart(int(node), suspect=suspect == "suspect")

    # -- output

    def status(self) -> list[str]:
        return list(self._status())

    def progress(self, node: str) -> list[str]:
        return [
            f"{peer} {known.mode.value}, match {known.match}, next {known.next}, in flight {known.in_flight}"
            for peer, known in self.network.raft(int(node)).progress.items()
        ]

    def wire(self) -> list[str]:
        return [describe(packet.message) for packet in self.network.wire]

    def _status(self) -> Iterator[str]:
        for number in sorted({*self.network.nodes, *self.network.disks}):
            node = self.network.nodes.get(number)
            if node is None:
                yield f"{number} is down"
                continue
            raft = node.raft
            log = " ".join(_shortened([_shown(entry) for entry in node.disk.written]))
            yield f"{number} {raft.role.value}, term {raft.term}, leader {raft.leader}, commit {raft.commit}: {log}"

    def _take(self, text: tuple[str, ...], at_most: int = 1) -> list[Packet]:
        """Remove the first messages with this text from the network and return them."""
        reads = [packet for packet in self.network.wire if " ".join(text) in describe(packet.message)][:at_most]
        for packet in reads:
            self.network.wire.remove(packet)
        return reads


def _shortened(values: list[str]) -> list[str]:
    return values if len(values) <= 20 else [*values[:3], f"and {len(values) - 6} more to", *values[-3:]]


def _shown(entry: Entry) -> str:
    """Return the entry as text. `-` is a no-op; `[1 2 3 | 4]` is a configuration of three voters and a learner."""
    if isinstance(entry.value, Configuration):
        voters, learners = entry.value.voters, entry.value.learners
        return f"[{' '.join(map(str, (*voters, '|', *learners) if learners else voters))}]"
    return "-" if str(entry.value).startswith("no-op") else str(entry.value)
