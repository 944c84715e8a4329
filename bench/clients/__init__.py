"""This package measures clients: consumer groups, rebalances, and the Spark source. Each module of this package is
a command."""
