"""Which passwords a user may have."""

from __future__ import annotations

import pytest

from ledger.access.password import make_verifier
from ledger.errors import InvalidArgumentError


@pytest.mark.parametrize("password", ["a tab\tin it", "a private \ue000 character", "both ways \u0627 of writing"])
def test_a_password_with_characters_that_scram_forbids_is_refused(password: str) -> None:
    with pytest.raises(InvalidArgumentError, match="characters that no password may have"):
        make_verifier(password)


@pytest.mark.parametrize("password", ["seven..", "x" * 1_025])
def test_a_password_with_a_wrong_length_is_refused(password: str) -> None:
    with pytest.raises(InvalidArgumentError, match="8 to 1024 characters"):
        make_verifier(password)
