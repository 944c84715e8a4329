"""Tests the places that the simulator counts: they fit the code, probes count them and change nothing, and a campaign
that misses a place fails."""

from __future__ import annotations

import ast
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest

from chaos.sim.campaign import run as runs
from chaos.sim.campaign.campaign import Totals
from chaos.sim.campaign.run import SeedReport, run
from chaos.sim.campaign.swarm import Wishes
from chaos.sim.reach.counts import CampaignReach, FirstSeed, due
from chaos.sim.reach.place import NEVER, RARE, Place
from chaos.sim.reach.places import PLACES, probes_of
from chaos.sim.reach.probes import HOOK, Probes, target_of
from chaos.sim.reach.reach_table import as_json, not_reached, rows, summary
from tests.mutants.catalogue import ROOT
from tests.mutants.typed import TypedCopy

SUBJECTS = "recovery repair snapshot members suspect fencing move transfer"

SOURCE = '''
"""A module of a product."""
from functools import wraps


class Door:
    def __init__(self):
        self.opened = 0

    def open(self, times):
        """Open the door."""
        if times < 0:
            return "never"
        elif times == 0:
            return "not"
        for _ in range(times):
            self.opened += 1
        return "open"

    @property
    def is_used(self):
        return self.opened > 0

    @staticmethod
    def material():
        return "oak"

    async def close(self):
        self.opened = 0
        raise ValueError("it is stuck")


def twice(word):
    word = word.strip()
    if word:
        word = word + word
    return word
'''


@pytest.fixture
def product(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ModuleType]:
    (tmp_path / "probed_product.py").write_text(SOURCE)
    monkeypatch.syspath_prepend(str(tmp_path))
    yield import_module("probed_product")
    del sys.modules["probed_product"]


def place(function: str, statement: str = "", when: str = "") -> Place:
    return Place(f"test: {function} {statement} {when}".strip(), f"probed_product:{function}", statement, when, 1, 1)


# -- the table


def test_the_table_names_enough_places_of_each_subject() -> None:
    names = Counter(each.name for each in PLACES)
    assert [name for name, count in names.items() if count > 1] == []
    assert len(names) >= 60
    assert set(SUBJECTS.split()) <= {each.subject for each in PLACES}
    assert [each.name for each in PLACES if each.protocol == each.stack == NEVER] == []


@pytest.mark.parametrize("world", ["protocol", "stack"])
def test_each_place_fits_the_code(world: str) -> None:
    assert [str(misfit) for misfit in probes_of(world).misfits] == []


# -- probes


def test_a_probe_counts_before_its_statement_and_is_removed_again(product: ModuleType) -> None:
    places = [
        place("Door.open"),
        place("Door.open", "return", "False"),  # three statements begin like this
        place("Door.open", 'return "not"'),
        place("Door.open", "self.opened +=", "self.opened == 1"),
        place("Door.is_used", "return", "self.opened > 1"),
        place("Door.material"),
        place("Door.close", "raise ValueError"),
    ]
    probes, reached, door = Probes(places), Counter[str](), product.Door()
    plain = product.Door.open.__code__
    with probes.active(lambda name: reached.update([name])):
        assert [door.open(times) for times in (-1, 0, 3)] == ["never", "not", "open"]
        assert door.is_used
        assert product.Door.material() == "oak"
        with pytest.raises(ValueError, match="it is stuck") as raised:
            door.close().send(None)
    assert reached == {
        "test: Door.open": 3,
        'test: Door.open return "not"': 1,
        "test: Door.open self.opened += self.opened == 1": 1,
        "test: Door.is_used return self.opened > 1": 1,
        "test: Door.material": 1,
        "test: Door.close raise ValueError": 1,
    }
    assert SOURCE.splitlines()[raised.traceback[-1].lineno].strip().startswith("raise ValueError")
    assert [str(misfit) for misfit in probes.misfits] == [
        "place 'test: Door.open return False' does not fit probed_product:Door.open any more: exactly one statement of "
        "it begins with 'return'. Adapt the place"
    ]
    assert product.Door.open.__code__ is plain
    assert not hasattr(product, HOOK)


@pytest.mark.parametrize(
    "misfit",
    [
        place("Door.shut"),
        place("Window.open"),
        place("Door.open", "self.opened -= 1"),
        place("Door.open", "elif times"),  # a probe there would change which branch is taken
        place("twice", "word"),  # two statements begin like this
    ],
    ids=lambda each: each.name,
)
def test_a_place_that_does_not_fit_is_told_and_not_counted(misfit: Place, product: ModuleType) -> None:
    probes = Probes([misfit, place("twice", "return word")])
    (told,) = probes.misfits
    assert misfit.name in str(told)
    reached: list[str] = []
    with probes.active(reached.append):
        assert product.twice(" a ") == "aa"
    assert reached == ["test: twice return word"]


def test_a_function_that_was_replaced_is_left_alone(product: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(product, "twice", lambda word: word)
    probes = Probes([place("twice", "return word")])
    assert "not the function in its file" in str(probes.misfits[0])
    with probes.active(pytest.fail):
        assert product.twice("a") == "a"


# -- runs


@pytest.mark.long
def test_a_run_tells_what_it_reached_and_when_and_is_the_same_run_without_probes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    wishes = Wishes(minutes=0.5)
    report = run(3, wishes)
    assert report.reached["transfer: the target stands"] >= 1
    assert report.reached["suspect: a leader trusts a follower again"] >= 1
    assert report.reached.keys() == report.first_reached_ms.keys()
    assert all(0 <= at_ms <= report.simulated_ms for at_ms in report.first_reached_ms.values())
    monkeypatch.setattr(runs, "probes_of", lambda world: SimpleNamespace(active=lambda note: nullcontext()))
    bare = run(3, wishes)
    assert bare.reached == {}
    assert replace(report, reached={}, first_reached_ms={}) == bare


# -- campaigns


def report_of(seed: int, **reached: int) -> SeedReport:
    return SeedReport(seed, True, (), (), (), 0, 60_000, {}, {}, {}, reached, dict.fromkeys(reached, 100 * seed))


def test_totals_keep_the_first_seeds_in_the_order_of_their_numbers() -> None:
    reach = CampaignReach()
    for seed in (9, 4, 7, 1, 2):
        reach.add(seed, {"a": seed}, {"a": 100 * seed})
    assert (reach.times["a"], reach.seeds["a"]) == (23, 5)
    assert reach.first["a"] == [FirstSeed(1, 100), FirstSeed(2, 200), FirstSeed(4, 400)]
    assert str(reach.first["a"][1]) == "2 (0.2 s)"


def test_a_campaign_that_misses_a_place_fails_if_it_had_enough_seeds() -> None:
    totals = Totals(due={"a": 1, "b": 3})
    totals.add(report_of(1, a=2))
    totals.add(report_of(2))
    assert totals.passed
    totals.add(report_of(3))
    assert (totals.never_reached, totals.passed) == (["b"], False)
    totals.add(report_of(4, b=1))
    assert (totals.never_reached, totals.passed) == ([], True)


TABLE = (
    Place("door: opens", "a:b", protocol=20),
    Place("door: closes", "a:b", protocol=RARE, stack=50),
    Place("window: breaks", "a:b", stack=50),
)


def test_only_a_campaign_that_chooses_nothing_must_reach_places() -> None:
    wishes = Wishes("protocol", 1.0)
    assert due(TABLE, wishes) == {"door: opens": 20, "door: closes": RARE}
    assert due(TABLE, replace(wishes, world="stack")) == {"door: closes": 50, "window: breaks": 50}
    for chosen in (
        replace(wishes, minutes=0.9),
        replace(wishes, nodes=3),
        replace(wishes, faults=("kill",)),
        replace(wishes, faults=()),
        replace(wishes, accepted_loss=True),
        Wishes("stack", 1.0, shards=2),
    ):
        assert due(TABLE, chosen) == {}


def test_the_table_tells_of_each_world_what_it_reached() -> None:
    reach = CampaignReach()
    reach.add(5, {"door: opens": 2}, {"door: opens": 1_500})
    assert list(summary(TABLE, "protocol", reach)) == [("reached: door", "1 of 2 places")]
    assert not_reached(TABLE, "protocol", reach) == "not reached (1): door: closes"
    assert not_reached(TABLE[:1], "protocol", reach) == ""
    assert not_reached([*PLACES], "stack", reach).endswith("places were not reached; --reach names them")
    assert list(rows(TABLE, "protocol", reach)) == [
        ("door: opens", "2", "1", "5 (1.5 s)", "20 seeds"),
        ("door: closes", "0", "0", "", "rare"),
        ("window: breaks", "0", "0", "", "not in this world"),
    ]
    assert as_json(TABLE, "protocol", reach) == {
        "door: opens": {"times": 2, "seeds": 1, "first": [{"seed": 5, "at_ms": 1_500}]},
        "door: closes": {"times": 0, "seeds": 0, "first": []},
    }


@pytest.mark.real
def test_the_conditions_of_places_name_only_what_exists(tmp_path: Path) -> None:
    copy = TypedCopy(tmp_path)
    by_module: defaultdict[str, list[Place]] = defaultdict(list)
    for each in PLACES:
        by_module[each.module].append(each)
    conditions = {f"{module.replace('.', '/')}.py": with_conditions(places) for module, places in by_module.items()}
    assert copy.errors_with(conditions) == ""
    path = "raft/core/transfer.py"
    wrong = conditions[path].replace("not self._holds_all(to)", "not self._holds_nothing(to)", 1)
    assert "_holds_nothing" in copy.errors_with({path: wrong})


def with_conditions(places: list[Place]) -> str:
    """Return the source of the module of these places, with an `if` for each condition."""
    lines = (ROOT / f"{places[0].module.replace('.', '/')}.py").read_text().splitlines()
    inserted = defaultdict(list)
    for each in places:
        target = target_of(ast.parse("\n".join(lines)), lines, each)
        assert target is not None
        _, statement = target
        if each.when:
            inserted[statement.lineno - 1].append(f"{' ' * statement.col_offset}if {each.when}: pass  # noqa")
    return "\n".join(text for number, line in enumerate(lines) for text in (*inserted[number], line)) + "\n"
