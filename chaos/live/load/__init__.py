"""The clients of a chaos run: processes that load the cluster and write histories. The load itself comes from
cluster/load.
"""
