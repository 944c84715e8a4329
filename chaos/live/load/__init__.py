"""The clients of a chaos run: processes that load the cluster and write histories. This package uses the load
generators of cluster/load.
"""
