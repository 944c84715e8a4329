"""The Spark format "ledgermq-log". The format has its own module, because Spark takes one format from each module."""

from ledger.spark.source.log_source import DefaultSource

__all__ = ["DefaultSource"]
