"""Chaos runs: faults on real nodes under load, and a verdict about what clients were told.

run.py         one run, from an empty directory to a verdict; nemesis.py carries out the plan of faults
hosts/         where nodes live: processes in network namespaces, or containers
faults/        the kinds of faults, and the plan that a seed makes of them
load/          client processes, which write histories
checker/       judges the histories
report/        the page of a run
operator.py and leaders.py watch the cluster; campaign.py makes many runs; command.py is `ledgermq chaos`, progress.py
shows how a run proceeds.
"""
