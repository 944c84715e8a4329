"""Makes the fixtures of fixtures.py known to pytest, which looks for fixtures in conftest.py."""

from tests.ledger.spark.fixtures import (  # noqa: F401
    admin,
    bootstrap,
    make_topic,
    nodes,
    producer,
    pytest_collection_modifyitems,
    spark,
)
