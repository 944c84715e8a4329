"""Snapshots and checkpoints of one shard.

This package contains, in reading order:

    snapshot.py            a snapshot, and its bytes
    snapshot_file.py       the snapshot at which the log begins, on disk
    snapshots.py           all snapshots of one shard
    incoming_snapshot.py   a snapshot that arrives from another node in pieces
    checkpoint.py          a local restart file: a snapshot and marks of the indexes
"""
