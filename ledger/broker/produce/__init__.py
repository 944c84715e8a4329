"""The module produce_decisions.py decides whether a batch of a producer is appended, and timed_admission.py whether its
messages may wait for delivery times. The module proposals.py has the proposals that wait for their commit."""
