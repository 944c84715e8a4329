"""`ledgermq bench`: command.py has the commands, options.py their shared options, and output.py prints results."""
