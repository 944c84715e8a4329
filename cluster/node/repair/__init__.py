"""This package finds damage in the log while the node serves, and repairs damaged logs with the bytes of other
replicas.

This package contains, in reading order:

    startup_repair.py   repairs a log that cannot be opened, before the node serves
    scrub.py            reads the part of the log that the start did not read
    scrub_repairer.py   repairs entries of an open log
    repair_retries.py   the waits between the attempts of a repair
    entry_source.py     requests entries from other nodes, and answers such requests
"""
