"""Processes in the foreground: server.py is `ledgermq server run`, nameserver.py is `ledgermq nameserver`."""
