"""The command `ledgermq bench`: command.py has its subcommands, options.py has their shared options, and output.py
prints the results."""
