"""Clients of a ledger cluster. They know the wire and the batch format, and nothing of raft/ or store/.

A message's way, in reading order:

producer.py       what users call; arguments.py checks what they pass, records.py is what they get
placement.py      topic and key to queue (topic_queue_selector.py)
lane.py           the rules of order, numbers and retries, pure; outgoing.py is one batch, outbox.py all lanes
sender.py         drives the outbox; produce_stream.py carries batches to one node and answers back
cluster_client.py calls to whoever leads; routes.py and route_table.py know who does, connection.py how to reach it
consumer.py       what users call; fetchers.py has a fetcher for each shard (fetcher.py), which reads ahead;
                  cursor.py is where reading stands
admin.py, sync.py topics and status; the synchronous twins
operator.py       members and leadership, for admin.py
"""
