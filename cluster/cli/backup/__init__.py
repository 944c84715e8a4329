"""The commands `ledgermq backup` and `ledgermq restore`.

command.py            create, list, check and prune backups, and make a key
replaying.py          replays the logs of a backup that is checked
restore.py            make the data directories of a new cluster from a backup
restored_settings.py  the settings files of the nodes of a restored cluster
options.py            options that say where the backups are
progress.py           the line of progress
backup_metrics.py     the metrics that `create` writes into a file
"""
