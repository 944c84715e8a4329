"""The producer: it collects messages in batches, numbers and orders the batches, and sends a batch again after a
failure.

This package contains, in reading order:

    producer.py              `AsyncProducer`, the producer that programs use
    arguments.py             checks the arguments that a program passes to a producer
    delivery_times.py        checks the delivery times that a program gives to messages
    slices.py                cuts a list of values into slices, which become batches
    buffer.py                limits the bytes of accepted messages that have no result yet
    queue_selection.py       chooses the queue of each piece, and gives the piece to the sequencer of the queue
    timed_selection.py       the same for messages with delivery times, by their target queues
    queue_selector.py        calls the user's own function that chooses the queue of a message
    plain_messages.py        adds messages with a value and a key to batches that others opened in the same turn
    topic_queue_selector.py  chooses the queue of a message by its key, or each queue in turn
    fault_table.py           records which shards answered late or failed, and are avoided for a while
    outgoing.py              the messages of one `send_many` as checked columns
    table.py                 the rows of a table, which become batches without a Python object for each row
    many.py                  sends many messages in one call
    producer_batch.py        one batch: its messages and the state of its delivery
    queue_sequencer.py       numbers, orders and retries the batches of one queue
    accumulator.py           polls all queue sequencers of one producer
    common_batches.py        small messages of several producers, which share batches
    sender.py                passes the time and the answers to the accumulator, and sends its batches
    wait_warnings.py         decides when to log that messages wait long for their acknowledgement
    produce_stream.py        one gRPC stream that carries batches to one node
    produce_streams.py       the streams to all leaders; producers share the streams for small batches
    receipts.py              computes the results that `send` and `send_many` return
    cancelling.py            cancels messages that wait for their delivery times
    recorder.py              writes the producer's history file
    delivery.py              the settings with which a producer collects and delivers batches
"""
