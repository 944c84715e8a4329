"""Docstrings and the help of commands become reStructuredText as their authors meant them."""

from __future__ import annotations

import pytest

from plain_text import escape, literal, tables, to_rst


def rst(text: str, without: tuple[str, ...] = ()) -> str:
    return to_rst(text, literal, without=without)


def test_prose_is_one_paragraph_and_means_nothing_else() -> None:
    assert rst("A topic* of |the\nbroker_ itself.") == "A topic\\* of \\|the broker\\_ itself.\n"
    assert rst("1. is no list.\n") == "\\ 1. is no list.\n"
    assert rst("-- neither is this") == "\\ -- neither is this\n"


def test_code_keeps_its_characters() -> None:
    assert rst("Set `a*b_` now.") == "Set \\ ``a*b_``\\  now.\n"
    assert literal(" `` ") == escape(" `` ")


def test_an_indented_table_is_a_list_of_definitions() -> None:
    text = """Settings::

        linger_ms    how long a batch
                     collects `messages`
        rng, seed    chance
    """
    assert rst(text) == (
        "Settings:\n\n``linger_ms``\n    how long a batch collects \\ ``messages``\n``rng``, ``seed``\n    chance\n"
    )
    assert list(tables(text)) == [
        ("linger_ms", "how long a batch collects `messages`"),
        ("rng", "chance"),
        ("seed", "chance"),
    ]


def test_a_table_at_the_margin_ends_where_prose_begins() -> None:
    text = "name    the name\nroom    the room,\n        if any\nmax_bytes, node: as for others"
    assert rst(
        text
    ) == "``name``\n    the name\n``room``\n    the room, if any\n\nmax\\_bytes, node: as for others\n".replace(
        "max\\_", "max_"
    )


def test_a_name_may_be_wider_than_its_column() -> None:
    text = "    a        one\n    first_offset, end_offset\n             two"
    assert list(tables(text)) == [("a", "one"), ("first_offset", "two"), ("end_offset", "two")]


def test_one_aligned_line_at_the_margin_is_prose() -> None:
    assert rst("Wait.  Then go on.") == "Wait.  Then go on.\n"


def test_rows_can_be_left_out_with_what_announces_them() -> None:
    text = "A record.\n\nFields:\n\n    lag    messages\n    age    seconds\n\nThe end."
    assert rst(text, ("lag",)) == "A record.\n\nFields:\n\n``age``\n    seconds\n\nThe end.\n"
    assert rst(text, ("lag", "age")) == "A record.\n\nThe end.\n"


@pytest.mark.parametrize(
    ("sample", "language"),
    [
        ("async with Producer() as producer:\n    await producer.send()", "python"),
        ("report = validate()\nprint(report)        # the text", "python"),
        ("leader -> follower\n   |\n   v", "text"),
    ],
)
def test_other_indented_text_is_a_sample(sample: str, language: str) -> None:
    indented = "\n".join(f"    {line}" for line in sample.splitlines())
    assert rst(f"So:\n\n{indented}") == f"So:\n\n.. code-block:: {language}\n\n{indented}\n"


def test_blank_lines_do_not_divide_a_sample() -> None:
    assert rst("So:\n\n    a = 1\n\n    b = 2\n\nDone.").count("code-block") == 1


def test_lists_stay_lists() -> None:
    assert rst("- one\n  more\n- two") == "- one more\n- two\n"


def test_the_help_of_commands_keeps_lines_after_its_mark() -> None:
    assert rst("\b\n  0  valid\n  1  not") == ".. code-block:: text\n\n    0  valid\n    1  not\n"
