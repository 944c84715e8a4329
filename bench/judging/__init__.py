"""This package measures the speed of `ledgermq validate` and of the checker of chaos runs. Each module of this
package is a command."""
