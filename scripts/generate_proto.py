"""Generates the protobuf modules beside the code that uses them: proto/raft/v1/raft.proto gives raft/v1/raft_pb2.py.

python scripts/generate_proto.py [OUTPUT FOLDER] (default: this repository; the test that the modules are fresh gives a
temporary folder)
"""

from __future__ import annotations

import sys
from pathlib import Path

import grpc_tools
from grpc_tools import protoc

ROOT = Path(__file__).resolve().parent.parent
SOURCES = ROOT / "proto"


def generate(output: Path) -> None:
    """Write all generated modules below `output`. If protoc fails, raise SystemExit with the status of protoc."""
    included = Path(grpc_tools.__file__).parent / "_proto"
    names = sorted(str(path.relative_to(SOURCES)) for path in SOURCES.rglob("*.proto"))
    outputs = [f"--{kind}_out={output}" for kind in ("python", "pyi", "grpc_python")]
    status = protoc.main(["protoc", f"-I{SOURCES}", f"-I{included}", *outputs, *names])
    if status != 0:
        raise SystemExit(status)
    for pattern in (
        "error_pb2_grpc.py",
        "command_pb2_grpc.py",
        "state_pb2_grpc.py",
        "definition_pb2_grpc.py",
        "message_trace_pb2_grpc.py",
        "slow_requests_pb2_grpc.py",
    ):  # no services in these: nothing to generate
        for empty in output.rglob(pattern):
            empty.unlink()


if __name__ == "__main__":
    generate(Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT)
