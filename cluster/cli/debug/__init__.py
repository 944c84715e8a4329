"""The command `ledgermq debug`: what people need who look for the cause of a problem.

command.py  the click group
slow.py     `ledgermq debug slow`
bundle.py   `ledgermq debug bundle`
"""
