"""Consumer groups on the command line: group.py is `ledgermq group`, dlq.py is `ledgermq dlq` (dead letters)."""
