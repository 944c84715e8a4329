"""Judges a chaos run: reads the histories of its clients and returns the anomalies. The checker does no I/O. Apart
from sorting, the running time of the checker grows linearly with the length of the history.
"""
