"""The verifier of logs: whether replicas are whole, agree, and hold what was acknowledged, judged from their bytes.

`ledgermq validate` judges all replicas (validate.py), `ledgermq log verify` one replica (replica_check.py), and
`ledgermq log diff` compares logs (difference.py).

sources.py        what is named, and the replicas there: place.py is what a directory is, access.py how bytes are got
replica.py        replicas, segments and spans as values; segment_end.py finds where a log ends
span_reader.py    one span: entries.py and block.py find entries, run_check.py, batches.py, continuity.py judge them,
                  unit_check.py and key_entries.py the indexes beside them, position_check.py the positions,
                  steps.py is what a replay needs of them
joining.py        how spans join to a log; pieces.py is what they are made of
replay.py         the state, replayed; snapshots.py compares the snapshots on the disk
small_files.py    votes and marks
windows.py        replicas compared by sums, and entry by entry where these differ
acknowledged.py   what clients were told
index_ends.py     what indexes have too much, or lack; key_files.py how the key index is linked
judging.py        the judgement on a shard
replica_check.py  one replica alone, in one pass, with a bounded memory
difference.py     where logs part, entry by entry
validate.py       all of it in order, by an engine (engine.py): plain_engine.py, or the one of ledger/spark
bound.py          how much of what is wrong is kept; all of it is counted
report.py         what came of it; violation.py, summary.py

What is told of a span depends on its bytes alone, and everything else on what is told of spans.
"""
