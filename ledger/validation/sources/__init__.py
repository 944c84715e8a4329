"""Sources of a validation.

This package contains, in reading order:

    sources.py         the replicas in the directories and URLs that a user names
    place.py           what a directory is, and where a shard's parts lie in it
    access.py          how bytes are read: from files, over HTTP from a running node, or from a backup
    node_urls.py       where the HTTP port of a running node is reached
    backup_access.py   reads the replicas in a backup
    replica.py         replicas, segments and spans as values
    errors.py          the errors of sources
"""
