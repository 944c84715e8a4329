"""Timed messages: messages that wait in the topic `%TIMED` until their delivery time, and are then delivered to their
queue. Clients and brokers use this module."""

from __future__ import annotations

# The topic of waiting messages. It has one queue in each shard that has queues of users. The identity of a waiting
# message is its offset in this queue.
TIMED_TOPIC = "%TIMED"
