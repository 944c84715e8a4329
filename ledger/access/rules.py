"""Decides whether a user has a right: an action on a resource, such as `publish` on `topic:orders-eu`.

A user has the rights that rules give it, and no others. A rule names one action, or all actions, and a pattern for
resources. A rule can also forbid. A rule that forbids wins over every rule that allows. The model is that of
RocketMQ 5's ACL 2.0.

    alice  allow  publish    topic:orders-*
    alice  deny   publish    topic:orders-archive      wins for this topic
    admin  allow  all        *                         an administrator
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal, NamedTuple, cast, get_args

from ledger.errors import InvalidArgumentError
from ledger.retries import consumer_group_of

Action = Literal["publish", "subscribe", "describe", "create", "alter", "delete", "read-log", "administer"]
Kind = Literal["topic", "group", "cluster"]

ACTIONS: tuple[Action, ...] = get_args(Action)
ALL_ACTIONS = "all"
ACTIONS_OF: dict[Kind, tuple[Action, ...]] = {
    "topic": ("publish", "subscribe", "describe", "create", "alter", "delete"),
    "group": ("subscribe", "describe", "alter", "delete"),
    "cluster": ("describe", "read-log", "administer"),
}
# A rule that allows one of these actions also allows `describe`.
_IMPLY_DESCRIBE = ("publish", "subscribe", "alter", "delete", "administer")

MAX_USERS = 10_000
MAX_RULES = 50_000
MAX_RULES_OF_A_USER = 1_000
MAX_NAME_LENGTH = 127

_USER = re.compile(r"[A-Za-z0-9_.@-]{1,127}", re.ASCII)
_PATTERN = re.compile(r"[A-Za-z0-9_.-]{0,127}\*?", re.ASCII)
_EVERYTHING = "*"
# Topics of the broker begin with it. Retry topics and dead-letter topics have the rights of their consumer group.
SYSTEM = "%"


class Resource(NamedTuple):
    """One topic, one consumer group, or the cluster (with an empty name)."""

    kind: Kind
    name: str = ""

    def __str__(self) -> str:
        return f"{self.kind}:{_shown(self.name)}" if self.kind != "cluster" else "cluster"


CLUSTER = Resource("cluster")


@dataclass(frozen=True, slots=True, order=True)
class Rule:
    """One rule for one user. `action` is one action or "all". `resource` is "topic:NAME", "group:NAME", "cluster" or
    "*"; a NAME that ends with * stands for all names that begin with the part before it."""

    user: str
    action: str
    resource: str
    deny: bool = False

    def __str__(self) -> str:
        return f"{self.user} {'deny' if self.deny else 'allow'} {self.action} {self.resource}"

    def matches(self, resource: Resource) -> bool:
        """Return True if the rule's pattern matches the resource. No pattern for topics matches a topic of the broker
        itself, so only the rule for everything gives a right on such a topic."""
        if self.resource == _EVERYTHING:
            return True
        kind, _, pattern = self.resource.partition(":")
        if kind != resource.kind or (kind == "topic" and resource.name.startswith(SYSTEM)):
            return False
        if pattern.endswith("*"):
            return resource.name.startswith(pattern[:-1])
        return pattern == resource.name

    def covers(self, action: str) -> bool:
        """Return True if the rule speaks of the action."""
        return self.action in (action, ALL_ACTIONS)

    def implies(self, action: str) -> bool:
        """Return True if the rule, which allows another action, allows this action with it."""
        return action == "describe" and self.action in _IMPLY_DESCRIBE


class Verdict(NamedTuple):
    """Whether a right exists, and the rule that decides. `rule` is None if no rule matches; then there is no right."""

    allowed: bool
    rule: Rule | None


def decide(rules: Iterable[Rule], action: Action, resource: Resource) -> Verdict:
    """Decide about one right by the rules of one user. A rule that forbids wins."""
    allowing: Rule | None = None
    for rule in rules:
        if not rule.matches(resource):
            continue
        if rule.deny:
            if rule.covers(action):
                return Verdict(False, rule)
        elif allowing is None and (rule.covers(action) or rule.implies(action)):
            allowing = rule
    return Verdict(allowing is not None, allowing)


def topic_resource(name: str) -> Resource:
    """Return the resource to which the rights on a topic belong. Retry topics and dead-letter topics belong to their
    consumer group. An unknown topic has the empty name, which only a pattern for all topics matches."""
    group = consumer_group_of(name)
    return Resource("topic", name) if group is None else Resource("group", group)


def parse_resource(text: str) -> Resource:
    """Return the resource of a text such as "topic:orders" or "cluster". Raises InvalidArgumentError."""
    validate_pattern(text)
    kind, _, name = text.partition(":")
    if "*" in text:
        raise InvalidArgumentError(f"{text!r} is a pattern: name one topic, one group, or the cluster.")
    return Resource(cast("Kind", kind), name)


def parse_action(text: str, resource: Resource) -> Action:
    """Return the action that `text` names. Raises InvalidArgumentError if the resource has no such action."""
    actions = ACTIONS_OF[resource.kind]
    if text not in actions:
        raise InvalidArgumentError(f"There is no action {text!r} on a {resource.kind}: use {_listed(actions)}.")
    return text


def validate_rule(rule: Rule) -> None:
    """Raise InvalidArgumentError if no such rule can exist."""
    validate_user_name(rule.user)
    validate_pattern(rule.resource)
    kind = rule.resource.partition(":")[0]
    actions = ACTIONS if kind == _EVERYTHING else ACTIONS_OF[cast("Kind", kind)]
    if rule.action not in (*actions, ALL_ACTIONS):
        raise InvalidArgumentError(
            f"There is no action {rule.action[:64]!r} on {rule.resource}: use {_listed((*actions, ALL_ACTIONS))}."
        )


def validate_pattern(text: str) -> None:
    """Raise InvalidArgumentError if the text is no pattern of resources."""
    kind, colon, name = text.partition(":")
    right = text in (_EVERYTHING, "cluster") or (
        kind in ("topic", "group") and colon and name and _PATTERN.fullmatch(name)
    )
    if not right:
        raise InvalidArgumentError(
            f'{text[:MAX_NAME_LENGTH]!r} is no resource: write "topic:NAME", "group:NAME", "cluster" or "*"; a NAME '
            "may end with * and has the characters A-Z a-z 0-9 _ . -"
        )


def validate_user_name(name: str) -> None:
    """Raise InvalidArgumentError if no user can have this name."""
    if not _USER.fullmatch(name):
        raise InvalidArgumentError(
            f"{name[:MAX_NAME_LENGTH]!r} is not a valid user name: use 1 to {MAX_NAME_LENGTH} of the characters "
            "A-Z a-z 0-9 _ . @ -"
        )


def _shown(name: str) -> str:
    """Return the name on one line. Callers choose names, and names stand in log lines and in responses."""
    return name if len(name) <= MAX_NAME_LENGTH and name.isprintable() else ascii(name[:MAX_NAME_LENGTH])


def _listed(words: Iterable[str]) -> str:
    return ", ".join(words)
