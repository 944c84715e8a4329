"""Registers the Spark format "ledgermq-log", which reads log files as tables. The format "ledgermq-log" has its own
module, because Spark takes one format from each module."""

from ledger.spark.source.log_source import DefaultSource

__all__ = ["DefaultSource"]
