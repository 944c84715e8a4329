"""This package contains the measurements of `make bench` and the page that they write. The command bench/run.py runs
the suite.

    new cluster ──> runs of `ledgermq bench` and of the ceiling, in turns ──> rows: target, reached, met ──> page

Each figure on the page is the median of several runs. The page shows the command of every run, so that anyone can
repeat the run. The important figures are ratios between two kinds of runs that took turns.
"""
