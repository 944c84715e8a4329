"""Trying to break it: the simulator. Nothing here is needed to run a cluster.

sim/   a whole cluster in one process, from one seed
"""
