"""What a local session is told."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def test_local_workers_run_this_python_with_the_pyspark_that_is_installed(spark: SparkSession) -> None:
    """And not the zip beside it, of which each worker would compile all that it imports."""
    import pyspark

    def seen(_: int) -> tuple[str, str]:
        import sys

        import pyspark

        return sys.executable, str(pyspark.__file__)

    (found,) = spark.sparkContext.parallelize([0], 1).map(seen).collect()
    assert found[0] == sys.executable
    assert Path(found[1]).resolve() == Path(str(pyspark.__file__)).resolve()
