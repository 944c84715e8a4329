"""Reads the spans of one replica, checks them, and replays the replicated state.

span_reader.py   reads one span; block.py, entries.py, batches.py and chains.py hold its bytes as columns
run_check.py, continuity.py                     entries, offsets and sequences that must follow each other
unit_check.py, key_entries.py, key_files.py, position_check.py, index_ends.py, small_files.py     files beside the log
segment_end.py, pieces.py, joining.py           where a log ends, and how spans join
steps.py, replay.py, snapshots.py               the state that the log leads to, compared with snapshots
"""
