"""`ledgermq bench`: command.py has the commands, options.py their shared options, output.py what they print."""
