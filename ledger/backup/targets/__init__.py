"""The targets of backups: places that store whole objects by name.

target.py             the interface of a target, and the names of objects
directory_target.py   a directory
s3_target.py          a bucket of S3, or of a compatible store
lock_object.py        the lock of a target that has no locks of its own
key_file.py           the file with the key that encrypts backups
sealed_target.py      encrypts the objects of another target
open_target.py        opens the target that a user names
"""
