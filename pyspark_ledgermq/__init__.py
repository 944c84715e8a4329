"""The format "ledgermq": Spark imports every module whose name begins like this one's, and takes its DefaultSource."""

from ledger.spark.source.default_source import DefaultSource

__all__ = ["DefaultSource"]
