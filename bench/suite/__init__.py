"""The measurements of `make bench`, and the page that it writes. bench/run.py runs the suite.

    new cluster ──> runs of `ledgermq bench` and of the ceiling, in turns ──> rows: target, reached, met ──> page

Each figure is the median of several runs. The page has the command of every run, so anyone can repeat it. The figures
that matter are ratios of two kinds of runs that took turns.
"""
