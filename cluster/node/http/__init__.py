"""The HTTP port of a node.

This package contains, in reading order:

    node_http.py        makes the HTTP port of a node, with its console, from the settings
    http_port.py        the paths of the port: /metrics, health checks, the log's segments and the console
    listener.py         accepts connections, within limits in total and for each host
    http_rights.py      checks the callers of each path
    deadline.py         the deadline of a response, which downloads and live pages move
    segment_routes.py   the segments of the log, for validation, Spark and copies
    downloads.py        limits the number of downloads, and how slow each may be
    file_sender.py      sends a file from the page cache to the socket, without copying it through the process
"""
