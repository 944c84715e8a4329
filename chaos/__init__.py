"""Test tools that try to break ledgermq: the simulator and chaos runs. A running cluster does not need this package.

This package contains, in reading order:

    sim/    the simulator runs whole clusters in one process, from one seed (`ledgermq sim`). Its fault kinds are
            defined in sim/engine/faults.py.
    live/   chaos runs use real nodes, real faults, histories and a checker (`ledgermq chaos`). Their fault kinds are
            defined in live/faults/catalogue.py.
    words.py   words for numbers in sentences
"""
