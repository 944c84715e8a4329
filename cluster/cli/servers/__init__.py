"""Commands that run a server process: server.py is `ledgermq server`, nameserver.py is `ledgermq nameserver`."""
