"""Measures nodes: restarts, the catch-up of a new replica, fetches, many queues, and idle shards. Each module of
this package is a command."""
