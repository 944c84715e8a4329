"""The reserved headers in which the cluster keeps what RocketMQ's clients say about a message.

Key, tag, look-up keys, time and user's properties have fields of their own in a message of the cluster. The other
properties are headers. Their names begin with `%`, so they are no names of user's properties.
"""

from __future__ import annotations

# The id that the producer gave to the message.
MESSAGE_ID = "%MESSAGE_ID"
# The type of the message, such as "FIFO"; a message without this header is NORMAL.
TYPE = "%TYPE"
# The host of the producer, as it told it.
BORN_HOST = "%BORN_HOST"
# "GZIP" if the producer compressed the body.
ENCODING = "%ENCODING"
# What a tracer of the producer wrote.
TRACE = "%TRACE"
# The priority of the message, a number as text.
PRIORITY = "%PRIORITY"
# All keys, separated by spaces, if there are more than the cluster finds the message by.
KEYS = "%KEYS"

RESERVED = "%"
