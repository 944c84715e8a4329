"""Tests that try to break ledgermq. A running cluster needs nothing of this package.

sim/    the simulator: whole clusters in one process, from one seed (`ledgermq sim`)
live/   chaos runs: real nodes, real faults, histories and their checker (`ledgermq chaos`)
"""
