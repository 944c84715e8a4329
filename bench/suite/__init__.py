"""This package contains the measurements of `make bench` and the page that they write. The command bench/run.py runs
the suite.

The suite starts new clusters and runs `ledgermq bench` against them. To measure the limit of the produce path, runs of
`ledgermq bench` take turns with runs of the ceiling (ceiling.py). The page has a row for each target: the target, the
reached figure, and whether the target is met.

Each figure on the page is the median of several runs. The page shows the command of every run, so that anyone can
repeat the run. The important figures are ratios between two kinds of runs that took turns.
"""
