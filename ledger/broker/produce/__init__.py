"""The module produce_decisions.py decides whether a batch of a producer is appended. The module proposals.py has
the proposals that wait for their commit."""
