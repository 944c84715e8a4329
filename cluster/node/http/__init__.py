"""The HTTP port of a node.

This package contains, in reading order:

    http_port.py        /metrics, /healthz, /readyz and /readyz/writes
    segment_routes.py   the segments of the log, for validation, Spark and copies
    file_sender.py      sends a file from the page cache to the socket, without copying it through the process
"""
