"""Creates Spark sessions that can read and write topics. The module needs `pip install 'ledgermq[spark]'`, and Java 17
or newer.

    from ledgermq.spark import spark_session

    with spark_session("counts", master="local[2]") as spark:
        spark.read.format("ledgermq").option("bootstrap.servers", "127.0.0.1:9871").option("subscribe", "orders").load()

A session that was made elsewhere finds the formats `ledgermq` and `ledgermq-log` too if this package is installed.
"""

from ledger.spark.session import SparkFailedError, SparkMissingError, spark_session, start_session

__all__ = ["SparkFailedError", "SparkMissingError", "spark_session", "start_session"]
