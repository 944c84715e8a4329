"""Checks the delivery times that a program gives to messages. No I/O, and no clock: the caller passes the time."""

from __future__ import annotations

from datetime import datetime, timedelta

from ledger.errors import InvalidArgumentError
from ledger.timed import EPOCH, MAX_DELAY_DAYS, MAX_DELAY_MS, MILLISECOND

_EXAMPLE = "such as datetime.now(timezone.utc) + timedelta(hours=1)"


def checked_delivery_ms(deliver_at: datetime | None, delay: timedelta | None, now_ms: int) -> int | None:
    """Return the delivery time in ms since 1970, rounded up, or None if the program gave none. `now_ms` is the present
    time. A time in the past is allowed.

    Raises InvalidArgumentError if both arguments are given, if `deliver_at` has no time zone, or if the time is before
    1970 or more than 40 days ahead.
    """
    if deliver_at is None and delay is None:
        return None
    if deliver_at is not None and delay is not None:
        raise InvalidArgumentError("Give `deliver_at` or `delay`, not both.")
    time_ms = _of_delay(delay, now_ms) if deliver_at is None else _of_moment(deliver_at)
    if time_ms < 0:
        raise InvalidArgumentError("The delivery time of a message is before 1970: give a later time.")
    if time_ms > now_ms + MAX_DELAY_MS:
        raise InvalidArgumentError(
            f"The delivery time of a message is {(time_ms - now_ms) / 86_400_000:,.1f} days ahead; the limit is "
            f"{MAX_DELAY_DAYS} days. Send the message later, or store it elsewhere until then."
        )
    return time_ms


def _of_delay(delay: object, now_ms: int) -> int:
    if not isinstance(delay, timedelta):
        raise InvalidArgumentError(f"`delay` must be a timedelta, such as timedelta(minutes=10); it is {delay!r}.")
    return now_ms + _rounded_up(delay)


def _of_moment(moment: object) -> int:
    if not isinstance(moment, datetime):
        raise InvalidArgumentError(f"`deliver_at` must be a datetime, {_EXAMPLE}; it is {moment!r}.")
    if moment.utcoffset() is None:
        raise InvalidArgumentError(
            f"`deliver_at` has no time zone ({moment.isoformat()}), so it does not name one moment: pass a datetime "
            f"with a time zone, {_EXAMPLE}, or use `delay`."
        )
    return _rounded_up(moment - EPOCH)


def _rounded_up(span: timedelta) -> int:
    """Return the span in ms. A fraction is rounded up, so that no message is early."""
    return span // MILLISECOND + (span % MILLISECOND > timedelta(0))
