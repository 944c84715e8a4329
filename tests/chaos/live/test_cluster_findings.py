"""Tests the anomalies in the reports of nodes: two leaders in one term, and a healed cluster that does not recover."""

from __future__ import annotations

import json
from pathlib import Path

from chaos.live.checker.anomaly import CLUSTER_KINDS
from chaos.live.checker.cluster import LeaderClaim, no_recovery, two_leaders
from chaos.live.checker.columns import columns_of
from chaos.live.checker.verdict import judge
from chaos.live.leaders import Reign, read_claims, read_reigns
from tests.chaos.live.tell import end, send


def test_two_leaders_in_a_term_are_found() -> None:
    finding = two_leaders([LeaderClaim(0, 7, 1), LeaderClaim(0, 7, 1), LeaderClaim(0, 8, 2), LeaderClaim(0, 7, 3)])
    assert [anomaly.sentence for anomaly in finding.shown] == ["nodes 1 and 3 both led shard 0 in term 7"]


def test_leaders_of_other_terms_and_shards_are_allowed() -> None:
    assert two_leaders([LeaderClaim(0, 7, 1), LeaderClaim(1, 7, 2), LeaderClaim(0, 8, 3)]).count == 0


def test_they_make_a_clean_history_not_valid() -> None:
    verdict = judge(columns_of([send(0, 0), *end((0, 0))]))
    assert verdict.joined(two_leaders([]), no_recovery("")).valid is True
    assert verdict.joined(two_leaders([LeaderClaim(0, 7, 1), LeaderClaim(0, 7, 2)])).valid is False
    broken = verdict.joined(no_recovery("the nodes did not get the same log within 120 s"))
    assert broken.valid is False
    assert broken.as_json()["anomalies"]["no recovery"]["count"] == 1
    assert set(CLUSTER_KINDS) <= set(verdict.joined(two_leaders([]), no_recovery("")).as_json()["anomalies"])


def test_what_a_watch_wrote(tmp_path: Path) -> None:
    log = tmp_path / "leaders.jsonl"
    told = [(10, {"0": [[1, 3]]}), (20, {"0": [[1, 3], [2, 4]], "1": [[3, 1]]}), (30, {})]
    log.write_text("".join(json.dumps({"at": at, "leaders": leaders}) + "\n" for at, leaders in told))
    assert set(read_claims(log)) == {LeaderClaim(0, 3, 1), LeaderClaim(0, 4, 2), LeaderClaim(1, 1, 3)}
    assert [reign for reign in read_reigns(log) if reign.shard == 0] == [
        Reign(0, 1, 3, 10, 20),
        Reign(0, 2, 4, 20, 30),
        Reign(0, 0, 0, 30, None),
    ]
