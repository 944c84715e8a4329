"""The main job, as `make demo` runs it: a real corpus through three nodes, the leader killed half-way, and a verdict.

run.py       the job itself: begin here
corpus.py    what is sent: the lines of many files
outage.py    how long no write was acknowledged
replicas.py  whether the nodes' logs are the same bytes
failure.py   what can keep it from a verdict
"""
