"""Places that hosts and users take."""

from __future__ import annotations

import pytest

from ledger.broker.access.places import Places, address_of_peer, host_of, host_of_peer


def test_a_holder_cannot_take_all_places() -> None:
    places = Places(most=3, most_of_a_holder=2)
    assert [places.take(holder) for holder in ("a", "a", "b")] == ["", "", ""]
    assert places.take("a") == "a has 2, which is the most that one caller may have"
    assert places.take("c") == "all callers together have 3, which is the limit of this node"
    places.give_back("a")
    assert places.take("c") == ""
    assert places.taken == 3


@pytest.mark.parametrize(
    ("address", "host"),
    [
        ("10.0.0.7", "10.0.0.7"),
        ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"),
        ("2001:db8:1:2:ffff::1", "2001:db8:1:2::/64"),
        ("fe80::1%eth0", "fe80::/64"),
        ("::ffff:10.0.0.7", "10.0.0.7"),
        ("somebody", "somebody"),
    ],
)
def test_the_host_of_an_address(address: str, host: str) -> None:
    assert host_of(address) == host


def test_the_address_of_a_peer() -> None:
    assert address_of_peer("ipv4:10.0.0.1:4000") == ("10.0.0.1", "4000")
    assert address_of_peer("ipv6:%5B::1%5D:4000") == ("::1", "4000")
    assert host_of_peer("ipv6:%5B2001:db8::1%5D:4000") == "2001:db8::/64"
    assert host_of_peer("unix:") == ""
