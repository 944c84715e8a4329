"""This package measures the speed of `ledgermq validate`, of the checker of chaos runs and of the simulator. Each
module of this package is a command."""
