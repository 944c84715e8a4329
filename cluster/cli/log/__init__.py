"""`ledgermq log`: looks at a node's log on the disk and writes nothing.

command.py   the commands, and how they name logs
dump.py      entries as lines
verify.py    the findings about one replica
diff.py      where two logs differ
flaws.py and progress.py show findings and progress.
"""
