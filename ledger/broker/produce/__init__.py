"""Producing: produce_decisions.py decides about a batch, proposals.py keeps what waits for a commit."""
