"""The commands `ledgermq backup` and `ledgermq restore`.

command.py            create, list, check and prune backups
restore.py            make the data directories of a new cluster from a backup
restored_settings.py  the settings files of the nodes of a restored cluster
options.py            options that say where the backups are
progress.py           the line of progress
"""
