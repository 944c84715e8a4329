"""Transactions of producers, and what answers the questions of the cluster about those of dead programs. Reading
order:

    records.py                the values that programs meet
    transaction.py            one transaction: send, commit, roll back
    producer_transactions.py  the transactions of one producer
    half_selection.py         gives messages of transactions to the sequencers of half batches
    ends.py                   sends commits and rollbacks to the leaders of decision shards
    checks.py                 answers the checks of nodes
"""
