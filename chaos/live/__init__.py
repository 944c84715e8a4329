"""A chaos run starts a cluster of real nodes, loads it, and disturbs it with faults. Then the run judges the messages
and answers that the clients received.

This package contains, in reading order:

    options.py    the options of a run
    run.py        one run, from an empty directory to a verdict
    nemesis.py    carries out the plan of faults
    repairs.py    reads what the nodes reported about damage
    hosts/        the places where nodes run: processes in network namespaces, or containers
    faults/       the kinds of faults, and the plan that a seed gives
    load/         client processes, which write histories
    checker/      judges the histories
    promise.py    what a run wrote, so that missing files are noticed
    run_file.py   the file `run.json`: options, times and promise of a run
    records.py    reads the JSON files of a run, and checks every value
    judging.py    judges a run from its files
    report/       the HTML page of a run
    operator.py   the requests that an operator makes to the cluster
    leaders.py    records which node leads
    looks.py      how often a program of a run looks at the cluster
    campaign.py   many runs with one summary
    command.py    `ledgermq chaos`
    progress.py   shows how a run proceeds
"""
