"""Measures `ledgermq validate` and the checker of chaos runs. Each module of this package is a command."""
