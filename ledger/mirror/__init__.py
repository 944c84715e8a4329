"""Copies topics of one cluster to another one, each message once (docs/MIRROR.md, docs/adr/0020).

The modules, in reading order:

    numbering.py        pure: the numbers of a copied batch name its offset at the source
    copied_batch.py     pure: makes the batch for the target from a batch of the source
    offset_map.py       pure: which offsets of the target have which offsets of the source
    copied_end.py       finds the last copied message in a queue of the target
    send_window.py      sends the batches of one queue in order, several at a time
    queue_copier.py     copies one queue, and continues after any failure
    topic_patterns.py   pure: which topics are copied, and under which names
    target_topics.py    creates the topics of the target
    mirror_progress.py  keeps what was copied as the progress of a broadcast, at the source and at the target
    copies.py           which topics of a cluster are copies
    group_offsets.py    moves the offsets of consumer groups to the target
    cluster_access.py   the connections to one cluster
    copy_tally.py       counts what was copied
    mirror_errors.py    the error that says why a mirror stops
    cluster_mirror.py   connects the parts
"""
