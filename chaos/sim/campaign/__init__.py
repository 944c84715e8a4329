"""Runs one seed or many seeds of the simulator.

Read the modules of this package in this order:

    swarm.py         what a seed draws: cluster, network, load and fault kinds
    run.py           runs one seed from its schedule to its report; shrink.py finds the shortest schedule that still
                     fails
    campaign.py      runs many seeds on several processes; ledger_file.py records the finished ones
    command.py       `ledgermq sim`; seeds.py parses seed ranges, progress.py shows progress
"""
