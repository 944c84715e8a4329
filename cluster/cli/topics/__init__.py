"""The command `ledgermq topic` creates, alters, deletes, lists and describes topics, and finds offsets by time."""
