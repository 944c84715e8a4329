"""Commands about consumer groups: group.py is `ledgermq group`, and dlq.py is `ledgermq dlq` (dead letters)."""
