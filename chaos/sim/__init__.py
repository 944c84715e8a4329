"""The simulator: a whole cluster in one process. Time, network, disks and randomness come from one seed.

engine/          virtual time, the simulated network, disks, processes and calls, and the kinds of faults
world.py         what a world offers: nodes, faults, workload, end
invariants.py    what must hold after every event
protocol/        the protocol world: core, driver and replicated state over a simulated log. It is fast.
stack/           the full-stack world: production nodes and clients, in several shards
consumers/       consumer groups in the full-stack world
campaign/        what a seed draws, runs of one seed, campaigns of many seeds, and `ledgermq sim`
"""
