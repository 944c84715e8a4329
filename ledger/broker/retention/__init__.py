"""Where the log begins: retention.py chooses the log start, log_trim.py moves it, log_holds.py keeps it in place."""
