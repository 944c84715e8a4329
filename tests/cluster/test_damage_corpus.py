"""Tests the verifier on a corpus of damage: it finds everything that the two earlier verifiers found.

`damage_found.json` has the findings of the two earlier verifiers: `ledgermq log verify` with `log diff`, and `ledgermq
validate`. Do not write this file again when the verifier changes. An old finding counts as found if a new finding of
the same file covers its place, because several wrong units may be reported as one run.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.cluster.damage_corpus import CASES, Corpus
from tests.cluster.damage_found import Area, Finding, Found, found_in

pytestmark = pytest.mark.long

Saved = dict[str, list[Finding]]
TOLD_BETTER: dict[str, dict[Finding, Finding | None]] = {
    # The verifier names the file, and does not call the next entry, which is right, broken as well.
    "node: flipped chain of entry 1": {
        "chain-broken node 1 0": "chain-broken node/shard-0/log/00000000000000000000 1 0",
        "chain-broken node/shard-0/log/00000000000000000000 2 80": None,
    },
    "node: old copy of a segment": {
        "missing-entries node 6 1200": "missing-entries node/shard-0/log/00000000000000000000 6 1200",
    },
    # It knows which entry that is.
    "node: shortened segment": {
        "damaged-entry node/shard-0/log/00000000000000004096 - 4936":
            "damaged-entry node/shard-0/log/00000000000000004096 19 4936",
    },
    # It tells each segment, of which only the first one begins with a known index.
    "node: entries of another version": {
        "unknown-entry node/shard-0/log/00000000000000008192 1 8192":
            "unknown-entry node/shard-0/log/00000000000000000000 1 0",
        "log-cut node/shard-0/log/00000000000000000000 1 0": None,
        "log-cut node/shard-0/checkpoint 1 0": None,
    },
    # No entry is gone: the clean mark names another chain than the entry that was changed.
    "node: flipped chain of entry 41": {
        "log-cut node/shard-0/log/00000000000000008192 42 11568":
            "clean-mark-wrong node/shard-0/log/00000000000000008192 42 11568",
    },
    # It tells the entry that is wrong, and not that its keys are missing elsewhere.
    "node: wrong key 15 of file 0, byte 12": {
        "key-missing node/shard-0/keys/00000000000000004656 17 24":
            "key-wrong node/shard-0/keys/00000000000000000080 17 444",
    },
}  # fmt: skip
"""What `validate` says in other words than the saved ones; None: it was wrong."""
OTHER_STATUS = {
    # Only `validate` found it, though one replica shows it: so now `log verify` ends with 1.
    "plant: a batch that is damaged in a whole entry": ["1", "1", "1", "0", "1"],
    # `log diff` compares nothing with an empty log, and says so with status 2.
    "replicas: an empty log": ["0", "1", "0", "2", "1"],
}
"""What the commands end with in other ways than the saved ones."""
NOT_TORN = {"plant: an entry left out": "torn node-2/shard-0/keys/00000000000000005568 34 836"}
"""What `log verify` called torn: the file ends there. Its entries before are wrong, and are told up to that place."""
NO_LOG = {"node: entries of another version": "damage node/shard-0/checkpoint 20 0"}
"""What only `log verify` says: `validate` reads no entry of this log, so nothing tells it which checkpoint is right."""
SAVED: dict[str, Saved] = json.loads(Path(__file__).with_name("damage_found.json").read_text())


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Corpus:
    return Corpus.make(tmp_path_factory.mktemp("corpus"))


def test_the_corpus_has_the_saved_cases() -> None:
    assert set(SAVED) <= set(CASES)


@pytest.mark.parametrize("case", SAVED)
def test_everything_is_found_that_was_found_before(case: str, corpus: Corpus, tmp_path: Path) -> None:
    found, saved = found_in(case, corpus, tmp_path), SAVED[case]
    assert found.status == OTHER_STATUS.get(case, saved["status"])
    assert found.diff == saved["diff"]
    assert uncovered(saved["verify"], found.verified) == [torn for torn in [NOT_TORN.get(case)] if torn]
    better = TOLD_BETTER.get(case, {})
    due = (
        {better.get(finding, finding) for finding in saved["validate"]} - {None} - cuts_without_loss(saved["validate"])
    )
    assert due - set(found.validate) == set()


@pytest.mark.parametrize("case", SAVED)
def test_validate_finds_what_verify_found(case: str, corpus: Corpus, tmp_path: Path) -> None:
    """`ledgermq validate` finds the union of both. Bytes that a kill may leave are reported as torn, and are no
    violation."""
    found = found_in(case, corpus, tmp_path)
    damage = [finding for finding in SAVED[case]["verify"] if not finding.startswith("torn ")]
    left = uncovered(damage, found.validated)
    left = [finding for finding in left if not is_not_judged(finding, found)]
    assert left == [damage for damage in [NO_LOG.get(case)] if damage]


def cuts_without_loss(findings: Sequence[Finding]) -> set[Finding]:
    """Return the cuts that earlier verifiers reported beside a damaged entry at the end of the log. The entry is
    there, so the log was not cut."""
    is_there = "damaged-entry "
    return {f"log-cut {each.removeprefix(is_there)}" for each in findings if each.startswith(is_there)}


def uncovered(findings: Sequence[Finding], areas: Sequence[Area]) -> list[Finding]:
    return [finding for finding in findings if not any(area.covers(finding) for area in areas)]


def is_not_judged(finding: Finding, found: Found) -> bool:
    """Return whether the replica was not judged because this file could not be opened. The output names replica and
    file."""
    return any(finding.split()[1] in why for why in found.not_judged)
