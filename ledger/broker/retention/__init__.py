"""Decides where the log begins. The module retention.py chooses the log start, log_trim.py moves the log start, and
log_holds.py prevents moves."""
