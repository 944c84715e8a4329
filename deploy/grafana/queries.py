"""Expressions of Prometheus over the metrics of one cluster, which is the job `$job`."""

from __future__ import annotations

from typing import NamedTuple

OF_THE_JOB = '{job="$job"}'
# What a reader of the dashboard chooses.
IN_A_TOPIC = 'topic=~"$topic"'
OF_A_GROUP = 'consumer_group=~"$consumer_group"'

_WORDS = {"shard": "shard ", "peer": "node "}


class Query(NamedTuple):
    """An expression, and the legend of its series in Grafana's form."""

    expression: str
    legend: str = ""

    def named(self, legend: str) -> Query:
        return Query(self.expression, legend)

    def top(self, count: int) -> Query:
        return Query(f"topk({count}, {self.expression})", self.legend)


def total(metric: str, by: str = "", labels: str = "") -> Query:
    """The sum of a metric, by labels such as "shard, peer"."""
    return _aggregate("sum", f"{metric}{_chosen(labels)}", by)


def largest(metric: str, by: str = "", labels: str = "") -> Query:
    return _aggregate("max", f"{metric}{_chosen(labels)}", by)


def rate(metric: str, by: str = "", labels: str = "") -> Query:
    """How much a counter grows in a second."""
    return _aggregate("sum", f"rate({metric}{_chosen(labels)}[$__rate_interval])", by)


def slope(metric: str, by: str) -> Query:
    """How much a gauge grows in a second."""
    return _aggregate("max", f"deriv({metric}{OF_THE_JOB}[$__rate_interval])", by)


def quantile(share: float, histogram: str, by: str = "instance") -> Query:
    buckets = rate(f"{histogram}_bucket", f"{by}, le").expression
    return Query(f"histogram_quantile({share}, {buckets})", f"p{share * 100:g} {_legend(by)}")


def _aggregate(function: str, series: str, by: str) -> Query:
    return Query(f"{function} by ({by}) ({series})" if by else f"{function}({series})", _legend(by))


def _chosen(labels: str) -> str:
    return f'{{job="$job", {labels}}}' if labels else OF_THE_JOB


def _legend(by: str) -> str:
    return ", ".join(f"{_WORDS.get(label, '')}{{{{{label}}}}}" for label in by.split(", ") if label)
