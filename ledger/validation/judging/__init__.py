"""Judges a shard from what was read of its replicas.

engine.py         who reads spans and joins results; plain_engine.py does it in one process
judging.py        replicas against each other, and what is committed; windows.py compares them by sums first
acknowledged.py   what clients were told, compared with the log
violation.py      a finding and its place; bound.py limits how many findings of a kind are kept
"""
