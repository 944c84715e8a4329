"""The synchronous clients. Each runs its asyncio client on an event loop in a thread of its own.

In reading order:

clients.py        Producer, Consumer and Admin
group_clients.py  GroupConsumer and PushConsumer
loop_thread.py    the event loop in its thread
read_ahead.py     messages that were read ahead for iteration
"""
