"""Spark: what of ledgermq needs pyspark, pyarrow or Java, and nothing else does.

session.py     a Spark session, wherever it is to run

One idea: this package is loaded only when Spark is asked for; a plain install goes on without it.
"""
