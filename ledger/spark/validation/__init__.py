"""The validation on Spark, which checks that the replicas of a cluster have the same log and kept all promises.

This package contains, in reading order:

    application.py   the PySpark program
    spark_engine.py  reads spans of logs in tasks and combines the results
    span_tasks.py    divides spans among tasks, and packs what a task finds
    driver_files.py  sends histories to executors on other hosts
    parquet.py       writes a Parquet file without Spark
"""
