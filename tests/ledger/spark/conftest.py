"""Where pytest looks for fixtures; they are in fixtures.py, under a name that no other folder has."""

from tests.ledger.spark.fixtures import (  # noqa: F401
    admin,
    bootstrap,
    make_topic,
    nodes,
    producer,
    pytest_collection_modifyitems,
    spark,
)
