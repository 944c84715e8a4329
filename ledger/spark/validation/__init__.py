"""The validation of replicas on Spark: spark_engine.py reads spans in tasks, application.py is the PySpark program."""
