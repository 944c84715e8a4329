"""Measurements of `ledgermq validate` and of the checker of chaos runs. Each module is a command."""
