"""The data directory of a node and its small files.

This package contains, in reading order:

    node_directory.py   checks the owner of the directory, locks it, and knows the paths of its parts
    shard_marks.py      how a shard was stopped, and what it may lack
    discarding.py       deletes the files of a replica that was removed from its shard
    format_upgrade.py   renames the parts of a format 1 directory
    vote_file.py        term, vote and incarnation
    clean_mark.py       a file that says that the last stop was orderly, and where the log ended
    boot.py             a file that says in which run of the machine the node last wrote
    suspect.py          a file that says that this node may have lost entries it acknowledged
"""
