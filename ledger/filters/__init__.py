"""Filters: conditions on the headers, tag and keys of messages, in the language that RocketMQ calls SQL92.

    price > 10 AND region = 'EU'
    TAGS IN ('paid', 'refunded') OR (retry IS NULL AND NOT urgent = FALSE)

A broker parses a filter once, and evaluates it for many messages at a time. Nothing here has a clock, chance or I/O.
This list has the modules in reading order.

    properties.py  the properties of messages, as texts, numbers and booleans
    conditions.py  a parsed filter, and how it is evaluated
    mistakes.py    what is said of a text that is no filter
    parse.py       makes conditions of a text
    batches.py     the properties of messages of a batch
"""

from __future__ import annotations
