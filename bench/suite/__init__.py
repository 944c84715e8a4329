"""What `make bench` measures, and the page that it writes. bench/run.py runs it.

    fresh cluster ──> runs of `ledgermq bench` and of the ceiling, in turns ──> rows: target, reached, met ──> page

A figure is the median of runs that anybody can repeat by the command beside it, and what matters is the ratio of two
kinds of runs that took turns.
"""
