"""The Helm chart: what it renders, what it refuses, and that the API of Kubernetes would take it."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from cluster.node.security.certificates import node_dns_name, node_uri
from cluster.node.settings import NodeSettings
from ledger.version import VERSION
from tests.cluster.kubernetes.chart import CHART, ROOT, container, environment, helm, refusal, render, tool

pytestmark = pytest.mark.real

SCHEMAS = Path(sys.executable).parents[1] / "share" / "kubernetes-schemas"
# Objects of other projects, for which Kubernetes has no schema.
FOREIGN = "Certificate,ServiceMonitor"
EVERYTHING = (
    "networkPolicy.enabled=true",
    "metrics.annotations=true",
    "metrics.serviceMonitor.enabled=true",
    "nodes=5",
    "antiAffinity=preferred",
    "rocketmq.enabled=true",
    "roomsFromZones=true",
    "storage.className=local",
    "priorityClassName=high",
    "outside.1=broker.example.com:9871",
    "imagePullSecrets[0].name=registry",
    "extraEnv[0].name=LEDGERMQ_LOG_FORMAT",
    "extraEnv[0].value=json",
    "security.hosts[0]=10.0.0.1",
    "security.hosts[1]=broker.example.com",
)
CASES = [(mode, values) for mode in ("own", "certManager", "insecure") for values in ((), EVERYTHING)]


def test_helm_finds_nothing_wrong_in_the_chart() -> None:
    done = helm("lint", "--strict", str(CHART))
    assert done.returncode == 0, done.stdout


@pytest.mark.parametrize("version", ["1.28", "1.34"])
@pytest.mark.parametrize(("mode", "values"), CASES)
def test_kubernetes_takes_every_object(version: str, mode: str, values: tuple[str, ...]) -> None:
    done = checked(manifest(f"security.mode={mode}", *values), version)
    assert done.returncode == 0, done.stdout + done.stderr
    found = re.search(r"Valid: (\d+), Invalid: 0, Errors: 0", done.stdout)
    assert found is not None
    assert int(found[1]) == (6 if values else 5)


def test_a_field_that_kubernetes_does_not_know_is_found() -> None:
    wrong = manifest().replace("  minReadySeconds:", "  minReadySecond:")
    done = checked(wrong, "1.34")
    assert done.returncode == 1
    assert "minReadySecond" in done.stdout


def manifest(*values: str) -> str:
    settings = [part for value in values for part in ("--set", value)]
    rendered = helm("template", "ledgermq", str(CHART), "--namespace", "ledgermq", *settings)
    assert rendered.returncode == 0, rendered.stderr
    return rendered.stdout


def checked(objects: str, version: str) -> subprocess.CompletedProcess[str]:
    """Compare the objects with the strict schemas of this version of Kubernetes."""
    kubeconform, schemas = tool("kubeconform"), SCHEMAS / f"v{version}.0-local-strict"
    if not schemas.is_dir():
        pytest.skip("there are no schemas of Kubernetes: run make kubernetes-tools")
    location = f"{schemas}/{{{{.ResourceKind}}}}{{{{.KindSuffix}}}}.json"
    command = [kubeconform, "-strict", "-summary", "-schema-location", location, "-skip", FOREIGN, "-"]
    return subprocess.run(command, input=objects, capture_output=True, text=True, timeout=60)


def test_the_committed_manifests_are_what_the_chart_renders(tmp_path: Path) -> None:
    subprocess.run(
        [ROOT / "scripts" / "kubernetes-manifests", tmp_path],
        check=True,
        env={"HELM": tool("helm"), "PATH": "/usr/bin:/bin", "HOME": str(tmp_path)},
    )
    committed = ROOT / "deploy" / "kubernetes"
    assert {path.name for path in committed.iterdir()} == {path.name for path in tmp_path.glob("*.yaml")}
    for path in tmp_path.glob("*.yaml"):
        assert path.read_text() == (committed / path.name).read_text(), "run `make manifests`"


def test_every_variable_is_a_setting_and_the_version_is_that_of_the_program() -> None:
    objects = render(*EVERYTHING)
    script = container(objects)["args"][0]
    names = {*environment(objects), *re.findall(r"LEDGERMQ_[A-Z_]+", script)}
    settings = {name.removeprefix("LEDGERMQ_").lower() for name in names if name.startswith("LEDGERMQ_")}
    assert len(settings) > 15
    assert settings <= NodeSettings.model_fields.keys()
    assert container(render())["image"] == f"ledgermq:{VERSION}"


def test_the_certificates_of_cert_manager_have_the_names_that_nodes_check() -> None:
    objects = render("security.mode=certManager", "cluster=prod eu", "nodes=4", release="mq")
    for node in (1, 2, 3, 4):
        spec = objects["Certificate", f"mq-node-{node}"]["spec"]
        assert spec["uris"] == [node_uri("prod eu", node)]
        assert spec["dnsNames"][:2] == [
            node_dns_name("prod eu", node),
            f"mq-{node - 1}.mq-nodes.ledgermq.svc.cluster.local",
        ]
        assert {"digital signature", "server auth", "client auth"} == set(spec["usages"])
    (volume,) = (
        each
        for each in objects["StatefulSet", "mq"]["spec"]["template"]["spec"]["volumes"]
        if each["name"] == "security"
    )
    paths = {
        (source["secret"]["name"], item["path"])
        for source in volume["projected"]["sources"]
        for item in source["secret"].get("items", ())
    }
    assert paths >= {(f"mq-node-{n}", f"node-{n}.{end}") for n in (1, 2, 3, 4) for end in ("pem", "key")}
    assert ("mq-node-1", "ca.pem") in paths


def test_added_nodes_do_not_change_the_first_ones() -> None:
    """`peers` are the voters of the first start. With another number of nodes, they stay."""
    three, five = render(), render("nodes=5")
    assert environment(three) == environment(five)
    assert container(three)["args"] == container(five)["args"]
    assert environment(three)["LEDGERMQ_PEERS"].count("=") == 3
    assert five["StatefulSet", "ledgermq"]["spec"]["replicas"] == 5


def test_a_pod_may_do_nothing_that_it_does_not_need() -> None:
    objects = render()
    pod = objects["StatefulSet", "ledgermq"]["spec"]["template"]["spec"]
    assert pod["automountServiceAccountToken"] is False
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert container(objects)["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }


@pytest.mark.parametrize(
    ("values", "words"),
    [
        (("nodes=2",), "`nodes` is smaller than `firstNodes`"),
        (("security.mode=none",), "security"),
        (("nodez=3",), "nodez"),
        (("settings.Shards=3",), "Shards"),
        (("terminationGracePeriodSeconds=1",), "terminationGracePeriodSeconds"),
    ],
)
def test_values_that_cannot_be_right_are_refused(values: tuple[str, ...], words: str) -> None:
    assert words in refusal(*values)


def test_large_numbers_of_settings_are_written_out() -> None:
    found = environment(render("settings.segment_bytes=1073741824", "settings.disk_clean_ratio=0.5"))
    assert (found["LEDGERMQ_SEGMENT_BYTES"], found["LEDGERMQ_DISK_CLEAN_RATIO"]) == ("1073741824", "0.5")
