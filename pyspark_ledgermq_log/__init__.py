"""The Spark format "ledgermq-log". It has a module of its own, because Spark takes one format from each module."""

from ledger.spark.source.log_source import DefaultSource

__all__ = ["DefaultSource"]
