"""Measures nodes: restarts, a new replica, fetches, many queues, idle shards. Each module is a command."""
