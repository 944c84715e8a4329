"""Judges a chaos run: histories of clients in, anomalies out. The checker is pure, and its time is linear in the
history except for sorting.
"""
