"""The module produce_decisions.py decides whether a batch of a producer is appended. The module timed_admission.py
decides whether its messages may wait for delivery times, within the limits of timed_limits.py. The module
column_levels.py decides whether the shard's feature level allows the columns of a batch. The module type_admission.py
decides whether the type of the topic allows the messages. The module id_admission.py decides
whether their message ids are new. The module proposals.py has the proposals that wait for their
commit."""
