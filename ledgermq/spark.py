"""Creates Spark sessions that can read and write topics. The module needs `pip install 'ledgermq[spark]'`, and Java 17
or newer.

    from ledgermq.spark import spark_session

    with spark_session("counts", master="local[2]") as spark:
        spark.read.format("ledgermq").option("bootstrap.servers", "127.0.0.1:9871").option("subscribe", "orders").load()

If this package is installed, a Spark session that was not made by this module also finds the formats `ledgermq` and
`ledgermq-log`.
"""

from ledger.spark.session import SparkFailedError, SparkMissingError, spark_session, start_session

__all__ = ["SparkFailedError", "SparkMissingError", "spark_session", "start_session"]
