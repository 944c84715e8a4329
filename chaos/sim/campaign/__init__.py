"""Runs of seeds.

swarm.py         what a seed draws: cluster, network, load and faults
run.py           one seed, from its schedule to its report; shrink.py finds the shortest schedule that still fails
campaign.py      many seeds on several processes; ledger_file.py keeps what was run
command.py       `ledgermq sim`; seeds.py reads seed ranges, progress.py shows progress
"""
