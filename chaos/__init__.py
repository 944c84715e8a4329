"""Test tools that try to break ledgermq: the simulator and chaos runs. A running cluster does not need this package.

This package contains, in reading order:

    sim/          the simulator runs whole clusters in one process, from one seed (`ledgermq sim`). Its fault kinds are
                  defined in sim/engine/faults.py.
    live/         chaos runs use real nodes, real faults, histories and a checker (`ledgermq chaos`). Their fault kinds
                  are defined in live/faults/catalogue.py.
    commands.py   adds `ledgermq sim` and `ledgermq chaos` to the command line
    words.py      words for nodes in sentences
    errors.py     the error of a chaos run that cannot start or continue
"""
