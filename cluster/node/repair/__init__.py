"""Repair of damaged log entries with the bytes of other replicas.

startup_repair.py   a log that could not be opened is repaired before the node serves
scrub_repairer.py   entries of an open log that a read found damaged
entry_source.py     how a node asks other nodes for entries, and answers such requests
"""
