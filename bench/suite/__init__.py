"""This package contains the measurements of `make bench` and the page that they write. The command bench/run.py runs
the suite.

The suite starts new clusters and runs `ledgermq bench` against them. To measure the limit of the produce path, runs of
`ledgermq bench` take turns with runs of the ceiling (ceiling.py). The page has a row for each target: the target, the
reached figure, and whether the target is met.

Each figure on the page is the median of several runs. The page shows the command of every run, so that anyone can
repeat the run. The important figures are ratios between two kinds of runs that took turns.

In reading order:

    scale.py         how large a run is
    stage.py         starts clusters, and runs `ledgermq bench` against them
    rows.py          the rows: a figure and its target
    ceiling.py       the limit: the same hops through gRPC, with nothing parsed or stored
    produce.py       producers, beside the ceiling
    crowds.py        clients that await each send
    consume.py       consumers, and the time from end to end
    keyed.py         rows with a key each
    client_forms.py  push consumers and synchronous producers
    growth.py        large logs, many queues, many consumers, five nodes
    disk.py          `flush = sync`, and slow disks
    slow_disk.py     makes the disk of a process slow
    secured.py       what TLS and authentication cost
    strain.py        an idle cluster, one under load, and one with ten times as many clients
    feature_rows.py  the targets of waiting messages, transactions and shared groups
    judging.py       `ledgermq validate` with Spark
    machine.py       the machine, and the versions of programs
    plots.py         the charts of the page
    page.py          the page and its JSON
"""
