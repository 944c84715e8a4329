"""Registers the Spark format "ledgermq", which reads and writes topics. Spark imports every module named
`pyspark_...` and uses its DefaultSource."""

from ledger.spark.source.default_source import DefaultSource

__all__ = ["DefaultSource"]
