"""Sentences about topics whose names are not known where the sentence is made.

Entries name topics by their ids, and only a replay of the log knows the names. A span reader therefore makes a
`TopicText`, and the code that has the names renders it. Names are never searched for in finished sentences: a topic may
be called `3`, so its name may look like an id.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class TopicText:
    """A sentence in parts: a text stands for itself, and a number for the topic with this id."""

    parts: tuple[str | int, ...]


# A sentence that is finished, or that lacks the names of topics.
Sentence = str | TopicText


def rendered(sentence: Sentence, names: Mapping[int, str]) -> str:
    """Return the finished sentence: `topic orders`, or `topic id 3` if the name of the topic is not known."""
    if isinstance(sentence, str):
        return sentence
    return "".join(part if isinstance(part, str) else f"topic {topic_name(names, part)}" for part in sentence.parts)


def topic_name(names: Mapping[int, str], topic_id: int) -> str:
    """Return the name of a topic, or `id 3` if the name is not known."""
    return names.get(topic_id, f"id {topic_id}")
