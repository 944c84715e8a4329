"""The producer: it collects messages in batches, numbers and orders the batches, and repeats them after failures.

In reading order:

    producer.py              AsyncProducer, the class that users call
    arguments.py             checks of what users pass
    slices.py                cuts lists of values into slices that become batches
    buffer.py                the limit on bytes that are not yet acknowledged
    queue_selection.py       gives each piece to the sequencer of its queue
    queue_selector.py        the user's own function that chooses a queue
    topic_queue_selector.py  the default choice of a queue
    fault_table.py           shards that answered late and are avoided for a while
    producer_batch.py        one batch on its way
    queue_sequencer.py       numbers, order and retries of one queue's batches
    accumulator.py           all sequencers of one producer
    sender.py                drives the accumulator: time, streams and answers
    produce_stream.py        one stream of batches to one node
    receipts.py              the futures that users await
    recorder.py              writes the producer's history file
    delivery.py              the settings of batches and deliveries
"""
