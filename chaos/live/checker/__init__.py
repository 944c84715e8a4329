"""Judges a chaos run: reads the histories of its clients and returns the anomalies. The checker does no I/O. Apart
from sorting, its time grows linearly with the length of the history.
"""
