"""The validation of replicas on Spark.

This package contains, in reading order:

    application.py   the PySpark program
    spark_engine.py  reads spans of logs in tasks and combines the results
    parquet.py       writes a Parquet file without Spark
"""
