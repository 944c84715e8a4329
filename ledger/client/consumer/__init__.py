"""The consumer without a consumer group, which fetches messages before the program asks for them, and hands them out
from memory.

This package contains, in reading order:

    consumer.py       `AsyncConsumer`, the consumer that programs use
    queue_readers.py  the queues that a consumer reads: a cursor for each queue, and a fetcher for each shard
    cursor.py         the position of a consumer in one queue, and the fetched batches of the queue
    fetchers.py       the fetchers of one consumer, one for each shard
    fetcher.py        fetches messages from one shard before the program asks for them
    messages.py       makes messages from fetched batches
    tags.py           parses the tag expression of a consumer
"""
