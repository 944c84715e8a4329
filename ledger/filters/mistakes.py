"""What is said of a filter that cannot be parsed: the place, what is wrong there, and what to write instead."""

from __future__ import annotations

from lark import Token, UnexpectedInput, UnexpectedToken

# Characters of a filter that an error shows.
_SHOWN = 24
# How an error names what could stand at a place, in this order.
_WORDS = {
    "NAME": "a property",
    "NUMBER": "a number",
    "STRING": "a text in single quotes",
    "OPERATOR": "a comparison such as =",
    "IS": "IS",
    "IN": "IN",
    "BETWEEN": "BETWEEN",
    "CONTAINS": "CONTAINS",
    "LPAR": "(",
    "COMMA": ",",
    "RPAR": ")",
    "AND": "AND",
    "OR": "OR",
    "$END": "the end",
}
# What people write, and what to write instead.
_HINTS = {
    "!=": "<>",
    "==": "=",
    "&&": "AND",
    "||": "OR",
    "!": "NOT",
    "LIKE": "CONTAINS, STARTSWITH or ENDSWITH",
}
_EXAMPLE = "A filter looks like this: price > 10 AND region = 'EU'."


class FilterMistakeError(Exception):
    """A part of a filter has no meaning. `at` is its place, if one character shows it."""

    def __init__(self, token: Token | None, what: str) -> None:
        super().__init__(what)
        self.at = None if token is None else token.start_pos
        self.what = what


def syntax_mistake(text: str, error: UnexpectedInput) -> str:
    """Return what is wrong where the parser could not go on, and what to do."""
    at = len(text) if isinstance(error, UnexpectedToken) and error.token.type == "$END" else error.pos_in_stream or 0
    for written, instead in _HINTS.items():
        start = at - 1 if written == "==" else at  # a single = is right
        if text[max(start, 0) :].upper().startswith(written):
            return told(text, max(start, 0), f"write {instead} and not {written}")
    rest = text[at:]
    if rest.startswith("'"):
        return told(text, at, "this text has no end: close it with a single quote, and write a quote in it twice")
    if rest.startswith('"'):
        return told(text, at, "this name has no end: close it with a double quote")
    if isinstance(error, UnexpectedToken):
        could = [word for terminal, word in _WORDS.items() if terminal in error.expected]
        return told(text, at, f"here could stand {_either(could or ['NULL'])}")
    return told(text, at, "a filter cannot have this character: put texts into single quotes")


def _either(words: list[str]) -> str:
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} or {words[-1]}"


def told(text: str, at: int | None, what: str) -> str:
    """Return the error for the person who wrote the filter. `at` is the place, counted from 0."""
    if at is None:
        return f"This filter cannot be used: {what}. {_EXAMPLE}"
    rest = text[at : at + _SHOWN]
    place = f'at character {at + 1}, "{rest}"' if rest else "at its end"
    return f"This filter has a mistake {place}: {what}. {_EXAMPLE}"
