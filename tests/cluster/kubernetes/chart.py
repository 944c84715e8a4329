"""Renders the Helm chart with `helm template`, which needs no Kubernetes cluster."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[3]
CHART = ROOT / "deploy" / "helm" / "ledgermq"
NAMESPACE = "ledgermq"

Object = dict[str, Any]


def tool(name: str) -> str:
    """Return the path of helm or kubeconform. Skip the test if it is not here."""
    own = Path(sys.executable).parent / name
    found = str(own) if own.exists() else shutil.which(name)
    if found is None:
        pytest.skip(f"there is no {name}: run make kubernetes-tools")
    return found


def helm(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([tool("helm"), *arguments], capture_output=True, text=True, timeout=60)


def render(*values: str, release: str = "ledgermq") -> dict[tuple[str, str], Object]:
    """Return the objects that the chart makes with these values (`key=value`), by kind and name."""
    settings = [part for value in values for part in ("--set", value)]
    done = helm("template", release, str(CHART), "--namespace", NAMESPACE, *settings)
    assert done.returncode == 0, done.stderr
    objects = [each for each in yaml.safe_load_all(done.stdout) if each is not None]
    named = {(each["kind"], each["metadata"]["name"]): each for each in objects}
    assert len(named) == len(objects)
    return named


def refusal(*values: str) -> str:
    """Return the error with which the chart refuses these values."""
    settings = [part for value in values for part in ("--set", value)]
    done = helm("template", "ledgermq", str(CHART), *settings)
    assert done.returncode != 0
    return done.stderr


def container(objects: dict[tuple[str, str], Object], name: str = "ledgermq") -> Object:
    """Return the container of the pods."""
    (found,) = objects["StatefulSet", name]["spec"]["template"]["spec"]["containers"]
    assert isinstance(found, dict)
    return found


def environment(objects: dict[tuple[str, str], Object]) -> dict[str, str]:
    """Return the variables of the container that have a fixed value."""
    return {each["name"]: each["value"] for each in container(objects)["env"] if "value" in each}
