"""Judges a chaos run: reads the histories of its clients and returns the anomalies. The checker does no I/O. Apart
from sorting, the running time of the checker grows linearly with the length of the history.

In reading order:

    verdict.py              the verdict on a whole history: valid, not valid, or void
    anomaly.py              the kinds of anomalies, and how findings are reported
    columns.py              turns a history into columns: a row for each sent and for each read message
    cells.py                the cells of columns: their types, and the values with a meaning
    joining.py              joins columns by equal rows
    contents.py             compares what was sent with what was read
    places.py               all sightings of messages at offsets must describe one log
    order.py                sends in real time: a later send has a higher offset
    polls.py                the order in which consumers received messages
    progress.py             the offset of a consumer group never decreases
    replicas.py             compares what each node returned in the final reading
    completeness.py         the final reading has every queue from every node
    cluster.py              what the nodes reported about leadership and recovery
    timed_columns.py        messages with delivery times, as columns
    timed.py                never early, once, as they were sent, and not after a cancel
    clock_doubt.py          by how much the clocks of the nodes may have been wrong
    transaction_columns.py  transactions, as columns
    transactions.py         all messages or none, each once, and never after a rollback
    shared_columns.py       shared groups, as columns
    shared.py               one member at a time, nothing again after its acknowledgement, order by key
    availability.py         the times without an acknowledged write, and the fault of each
"""
