"""The commands about consumer groups: group.py has `ledgermq group`, and dlq.py has `ledgermq dlq` (dead letters)."""
