"""Consumers of shared groups, which lease messages one by one.

shared_message.py   a leased message, and the lease by which it is acknowledged
lease_ends.py       when a lease ends, as its member counts
share_stream.py     one stream to the leader of one shard
shard_link.py       repeats requests at the next leader
group_links.py      the links of one member to all shards of its topics
receives.py         asks the shards for messages, and keeps what arrives
lease_keeper.py     extends leases while the program works
shared_consumer.py  the consumer
"""

from __future__ import annotations
