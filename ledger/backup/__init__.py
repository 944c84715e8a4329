"""Backups of a cluster: the committed entries of all shards, copied to a target, and data directories made from them.

    HTTP ports of the nodes ──> create ──> target (a directory, or a bucket of S3) ──> restore ──> data directories

A backup consists of *pieces*. A piece has the bytes of some entries of one shard's log, all of one segment. Committed
entries never change, so each byte is copied once: the next backup continues where the one before it ended. A *manifest*
names the pieces of one backup. The manifest is written last and as a whole, so a backup without a manifest is no
backup. This package contains, in reading order:

    manifest.py       what a backup consists of, and its encoding
    targets/          where backups are stored
    catalogue.py      which backups a target has, and which of its objects no backup uses any more
    source.py         reads the logs of running nodes over HTTP
    rate.py           limits how many bytes a backup copies in a second
    shard_copy.py     copies one shard from its last piece on
    hold.py           holds the log starts while a backup reads, and defines the point in time of the backup
    progress.py       what an unfinished backup has copied, so that the next one continues
    create.py         makes one backup
    reading.py        reads the entries of a backup, with all checks
    check.py          checks a backup without restoring it
    cut.py            which entries belong to a point in time
    shard_writer.py   writes the replica of one shard into a data directory
    restore.py        makes the data directories of a new cluster
    errors.py         the errors of backups
"""
