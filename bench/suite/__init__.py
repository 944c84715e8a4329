"""This package contains the measurements of `make bench` and the page that they write. The command is bench/run.py.

    new cluster ──> runs of `ledgermq bench` and of the ceiling, in turns ──> rows: target, reached, met ──> page

Each figure is the median of several runs. The page shows the command of every run, so that anyone can repeat the run.
The important figures are ratios between two kinds of runs that took turns.
"""
