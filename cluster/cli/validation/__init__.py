"""`ledgermq validate`: compares the replicas of shards from their bytes."""
