"""Measures clients: consumer groups, rebalances, the Spark source. Each module is a command."""
