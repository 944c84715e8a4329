"""The consumer without a consumer group. It fetches messages ahead and hands them out from memory.

In reading order:

    consumer.py       AsyncConsumer, the class that users call
    queue_readers.py  the queues of a consumer: a cursor for each queue, a fetcher for each shard
    cursor.py         the position of a consumer in one queue, and the batches fetched ahead
    fetchers.py       one fetcher for each shard
    fetcher.py        fetches ahead from one shard
    messages.py       makes messages from fetched batches
    tags.py           the tag expression of a consumer
"""
