"""Finds what is known of the life of one message, for `ledgermq message trace`.

history.py        finds the events of the message in the entries of the log
scan.py           reads a part of the log, in small steps
starts.py         finds the entry of the message, and where it was before
replica_times.py  says when this replica had the entry
"""
