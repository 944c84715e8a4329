"""The command `ledgermq validate` compares the replicas of shards by reading their bytes."""
