"""The demo of `make demo` sends a real corpus through three nodes, kills the leader half-way, and gives a verdict.

This package contains, in reading order:

    run.py       the demo itself; begin here
    corpus.py    the lines of many files, which the demo sends
    outage.py    how long no write was acknowledged
    replicas.py  compares the logs of the nodes byte by byte
    failure.py   the errors that prevent a verdict
"""
