"""Measures clients: consumer groups, rebalances, the Spark source. Each module of this package is a command."""
