"""The data directory of a node and its small files.

node_directory.py   whose directory it is, its lock, and where its parts are
format_upgrade.py   renames the parts of a format 1 directory
vote_file.py        term, vote and incarnation
clean_mark.py       the last stop was orderly, and where the log ended
boot.py             in which run of the machine the node last wrote
suspect.py          this node may have lost entries it acknowledged
"""
