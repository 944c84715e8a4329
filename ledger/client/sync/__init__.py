"""The synchronous clients. Each synchronous client runs its asyncio client on an event loop, in a separate thread.

In reading order:

    clients.py        Producer, Consumer and Admin
    group_clients.py  GroupConsumer and PushConsumer
    loop_thread.py    the event loop in its thread
    read_ahead.py     takes messages that were read ahead for iteration
"""
