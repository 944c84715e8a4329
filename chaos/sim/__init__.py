"""A whole cluster in one process: time, network, disks and chance come from one seed, the code is the production code.

loop.py         virtual time: an asyncio loop without a clock
network.py      datagrams and connections between numbered endpoints; links.py: one direction between two of them;
                network_faults.py: cuts and partitions
faults.py       what can go wrong; targets.py: for whom; schedule.py: when it does; swarm.py: which of it a seed draws
world.py        what every world offers: the nodes, the faults, the workload, the end
invariants.py   what must hold after every event; deliveries.py: what became of messages
protocol*.py    the protocol world: core, driver and replicated state over a simulated log. Fast
                ambush.py: faults at the worst moment; membership.py: transfers and changes
stack*.py       the full-stack world: production nodes, clients and operator on simulated disks, in several shards
                node*.py: a node, its part in each shard, its processes; rpc*.py: calls; disk*.py: what a disk keeps
                workload*.py: producers and consumers, and what they were told
run.py          one seed, from its schedule to its report; shrink.py: the shortest schedule that still fails
campaign.py     many seeds on several processes; ledger_file.py: what was run
command.py      `ledgermq sim`; progress.py: how it goes; seeds.py: which
"""
