"""Reads the spans of one replica's log, checks each span, and checks that the spans together form one log.

This package contains, in reading order:

    span_reader.py        reads one span and collects what it shows
    block.py              the bytes of a span; entries.py finds the entries in them
    batches.py            the batches in entries; chains.py computes the chains of entries
    waiting_columns.py    the delivery times of batches of waiting messages
    message_contents.py   hashes the contents of messages that wait, are copied, or are delivered
    pieces.py             runs of entries and the gaps between runs
    run_check.py          checks that entries of a run follow each other
    continuity.py         checks that offsets and sequences of a queue follow each other
    position_check.py     checks the files that map indexes to positions
    unit_check.py         checks the units of ConsumeQueues
    key_files.py          reads the files of the key index; key_entries.py checks their entries
    segment_end.py        finds the last entry of a log
    joining.py            joins the spans of one replica to a log
    steps.py              what a replay needs to know of a span
    span_steps.py         the steps of a span, packed
"""
