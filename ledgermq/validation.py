"""The functions of the command `ledgermq validate`, for calls from Python.

    from ledgermq.validation import PlainEngine, as_text, validate

    report = validate(["/data/node-1", "http://10.0.0.2:9872"], PlainEngine())
    print(as_text(report))          # the text of `ledgermq validate`
    sys.exit(report.status)         # 0 valid, 1 a violation, 2 could not be judged

`PlainEngine` reads the logs in the calling process, on one core. Validation works with the base installation, `pip
install ledgermq`. The page that `validate(out=...)` writes needs `pip install 'ledgermq[bench]'`, and the Parquet file
needs `pip install 'ledgermq[spark]'`.
"""

from ledger.validation.judging.engine import Engine
from ledger.validation.judging.plain_engine import PlainEngine
from ledger.validation.judging.violation import Violation, ViolationKind
from ledger.validation.report.report import AcknowledgedReport, ReplicaReport, ShardReport, ValidationReport
from ledger.validation.report.summary import as_text
from ledger.validation.validate import OnPlan, validate

__all__ = [
    "AcknowledgedReport",
    "Engine",
    "OnPlan",
    "PlainEngine",
    "ReplicaReport",
    "ShardReport",
    "ValidationReport",
    "Violation",
    "ViolationKind",
    "as_text",
    "validate",
]
