"""Transactions, in the broker: what committed entries say about them, and how the leader ends them. Reading order:

applied_transactions.py  what the committed batches of transactions do to the state of a replica
"""
