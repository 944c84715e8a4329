"""Producing: produce_decisions.py decides about a batch, proposals.py has the proposals that wait for their commit."""
