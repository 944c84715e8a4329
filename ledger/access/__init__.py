"""Who may do what: users, their rules, and the proof of a password.

    rules.py        resources, actions, rules, and the decision about one right
    certificate.py  the proof of a user by a client certificate
    rocketmq.py     the signature of RocketMQ's clients
    forwarded.py    the user for whom a node calls another node
    password.py     what the cluster stores in place of a password (SCRAM-SHA-256)
    mechanism.py    the SCRAM mechanism of the library `scramp`, which clients load only when they make a verifier

Shard 0 stores users and rules (`ledger/state/access_table.py`), and every node has a replica of shard 0. Clients, nodes
and the command line use this package.
"""
