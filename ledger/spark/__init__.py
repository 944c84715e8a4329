"""Spark: what of ledgermq needs pyspark, pyarrow or Java, and nothing else does.

session.py     a Spark session, wherever it is to run
engine.py      the validation's work as Spark jobs; validation.py is it as an application for spark-submit
parquet.py     rows as a Parquet file, without Spark

This package is loaded only when Spark is asked for; a plain install goes on without it.
"""
