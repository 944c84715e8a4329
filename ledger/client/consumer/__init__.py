"""The consumer without a consumer group: reads queues from memory, and fetches ahead.

In reading order:

consumer.py       AsyncConsumer, the class that users call
queue_readers.py  the queues that are read: a cursor for each queue, a fetcher for each shard
cursor.py         where a consumer stands in one queue
fetchers.py       one fetcher for each shard
fetcher.py        fetches ahead from one shard
messages.py       makes messages of fetched batches
tags.py           the tag expression of a consumer
"""
