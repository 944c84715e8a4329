"""The profile `monitoring` of docker-compose.yml names files, targets and users that exist. No container runs here."""

from __future__ import annotations

from typing import Any

import yaml

from tests.cluster.monitoring.prometheus import ROOT, RULE_FILES, RULES

COMPOSE = yaml.safe_load((ROOT / "docker-compose.yml").read_text(encoding="utf-8"))
SERVICES: dict[str, dict[str, Any]] = COMPOSE["services"]
MONITORING = {name: service for name, service in SERVICES.items() if "monitoring" in service.get("profiles", ())}


def read(path: str) -> Any:
    return yaml.safe_load((ROOT / "deploy" / path).read_text(encoding="utf-8"))


def test_nodes_start_without_the_profile() -> None:
    assert set(MONITORING) == {"monitoring-user", "prometheus", "grafana"}
    needed = {name for service in SERVICES.values() for name in service.get("depends_on", ())}
    assert {name for name in SERVICES if name not in MONITORING} >= needed - set(MONITORING)
    for name, service in SERVICES.items():
        assert name in MONITORING or not set(service.get("depends_on", ())) & set(MONITORING)


def test_every_file_and_volume_exists() -> None:
    for service in MONITORING.values():
        for volume in service["volumes"]:
            source = volume.split(":")[0]
            assert (ROOT / source).exists() if source.startswith(".") else source in COMPOSE["volumes"], volume


def test_prometheus_scrapes_every_node_with_the_rules() -> None:
    config = read("prometheus/compose.yml")
    plain = read("prometheus/prometheus.yml")
    assert config["global"] == plain["global"]
    assert config["rule_files"] == plain["rule_files"] == list(RULE_FILES)
    assert all((RULES / file).exists() for file in RULE_FILES)
    (job,) = config["scrape_configs"]
    nodes = [name for name, service in SERVICES.items() if name.startswith("node-")]
    assert job["job_name"] == "ledgermq"
    assert job["static_configs"] == [{"targets": [f"{node}:9872" for node in nodes]}]
    assert "--config.file=/etc/prometheus/compose.yml" in SERVICES["prometheus"]["command"]


def test_grafana_finds_prometheus_and_the_dashboards() -> None:
    (source,) = read("grafana/provisioning/datasources/prometheus.yml")["datasources"]
    assert source["url"] == "http://prometheus:9090"
    (provider,) = read("grafana/provisioning/dashboards/ledgermq.yml")["providers"]
    mounted = {volume.split(":")[1]: volume.split(":")[0] for volume in SERVICES["grafana"]["volumes"]}
    assert mounted[provider["options"]["path"]] == "./deploy/grafana/dashboards"
    assert mounted["/etc/grafana/provisioning"] == "./deploy/grafana/provisioning"
