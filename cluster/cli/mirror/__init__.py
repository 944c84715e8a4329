"""The command `ledgermq mirror`.

command.py         the options, and the run of a mirror
cluster_option.py  the click type of a cluster: a profile or addresses
copy_report.py     the progress, and the account at the end
mirror_metrics.py  the metrics that a mirror writes into a file
"""
