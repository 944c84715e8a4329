"""Requests of clients that were slow on this node, with the parts of their time, and who sent which messages.

entry_parts.py    the parts of the time of a request that appended an entry
slow_requests.py  keeps the recent and the slowest records of a node
senders.py        remembers which client has which producer id

The record of one slow request is in ledger/slow_request.py, because clients read it too.
"""
