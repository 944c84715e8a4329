"""The format "ledgermq-log": Spark takes one format from each module, so this one is beside pyspark_ledgermq."""

from ledger.spark.source.log_source import DefaultSource

__all__ = ["DefaultSource"]
