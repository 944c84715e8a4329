"""Measures what a node costs as its work grows: connections, queues, shards, and the length of the log.

`bench.run_growing` runs the parts and writes one page. Reading order of the modules:

    scale.py              how far each quantity grows
    curve.py              the points of one growing quantity, their slopes, and cliffs
    load.py               the load that each part runs at each size, and the figures of the nodes
    connections.py        open connections of clients; hold.py opens them in a process of its own
    queues.py             queues of one shard
    shards.py             shards, on three and on nine nodes
    logs.py               the length of the log, with holes that keep the disk small (holes.py)
    plots.py, page.py     the page of results
"""
