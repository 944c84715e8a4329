"""Transactions, in the broker: what committed entries say about them, and how the leaders of shards end and settle
them. Reading order:

    applied_transactions.py  what the committed batches of transactions do to the state of a replica
    halves.py                reads half batches, and makes the batches that settle them
    ends.py                  commits and rolls back
    settling.py              settles half batches when their transactions are decided
    other_shards.py          the interface to other shards
    answering.py             answers other shards
    finding.py               finds all half batches of a transaction
    checkers.py              the producers that answer checks
    checking.py              asks producers for the outcome of silent transactions
    listing.py               lists open transactions
    copying.py               copies half batches, so that the log start can move
    shard_transactions.py    the parts of one shard
"""
