"""The synchronous clients. Each synchronous client runs an asyncio client on an event loop, in a thread of its own.

This package contains, in reading order:

    clients.py          `Producer` and `Consumer`
    admin.py            `Admin`
    group_clients.py    `GroupConsumer` and `PushConsumer`
    shared_consumer.py  `SharedConsumer`
    request_clients.py  `Requester` and `Responder`
    transactions.py     `Transaction`
    handover.py         passes messages of a producer to its event loop, many at a time
    loop_thread.py      an event loop in a thread of its own
    read_ahead.py       selects what to hand out from the messages that were read ahead
"""
