"""Judges a chaos run: reads the histories of its clients and returns the anomalies. The checker is pure, and its time
is linear in the history except for sorting.
"""
