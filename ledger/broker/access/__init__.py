"""Who calls this node, and what the caller may do.

In reading order:

    callers.py        who made a call, and the caller of the present call
    authorizer.py     decides whether a caller has a right, by the rules in shard 0
    sessions.py       the proven callers of this node, and their tokens
    proofs.py         the proof of a caller: SCRAM-SHA-256, a delegated token, or a client certificate
    users.py          changes users and rules, in shard 0
    rocketmq_secrets.py  makes RocketMQ secrets, and proves a caller by one
    forwarding.py     names the user for whom this node calls other nodes
    first_administrator.py  makes the first administrator of a new cluster
    places.py         limits what one caller, or one host, has at the same time
    audit.py          one log line for each administrative act
"""
