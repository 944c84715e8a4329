"""`ledgermq topic`: create, alter, delete, list and describe topics, and find offsets by time."""
