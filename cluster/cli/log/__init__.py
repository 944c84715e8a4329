"""The command `ledgermq log` reads the log files of a node and writes nothing.

This package contains, in reading order:

    command.py    the commands and their options
    dump.py       `log dump`: prints entries as lines
    verify.py     `log verify`: prints the flaws of one replica
    diff.py       `log diff`: prints where replicas differ
    flaws.py      a flaw as a line or as JSON
    progress.py   progress bars
"""
