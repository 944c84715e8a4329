"""Retention: retention.py decides where the log should begin, log_trim.py moves the beginning."""
