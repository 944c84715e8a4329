"""The commands that run a server process: server.py has `ledgermq server`, and nameserver.py has `ledgermq
nameserver`."""
