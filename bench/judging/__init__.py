"""Measures `ledgermq validate` and the checker of chaos runs. Each module is a command."""
