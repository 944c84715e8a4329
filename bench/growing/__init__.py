"""Measures what a node costs as its work grows: connections, queues, shards, and the length of the log.

`bench.run_growing` runs the parts and writes one page. Reading order of the modules:

    curve         the points of one growing quantity, their slopes, and cliffs
    connections   open connections of clients; `hold` opens them in a process of its own
    queues        queues of one shard
    shards        shards, on three and on nine nodes
    logs          the length of the log, with `holes` that keep the disk small
    plots, page   the page of results
"""
