"""What the dashboards show: a dashboard has rows, a row has panels, and a panel has queries."""

from __future__ import annotations

from dataclasses import dataclass

from queries import IN_A_TOPIC, OF_A_GROUP, OF_THE_JOB, Query, largest, quantile, rate, slope, total


@dataclass(frozen=True, slots=True)
class Panel:
    """One panel. `kind` is the name of a panel of Grafana. `unit` is a unit of Grafana; "short" is a number."""

    title: str
    unit: str
    queries: tuple[Query, ...]
    kind: str = "timeseries"
    text: str = ""


@dataclass(frozen=True, slots=True)
class Row:
    title: str
    panels: tuple[Panel, ...]


@dataclass(frozen=True, slots=True)
class Dashboard:
    """`variables` are labels whose values a reader can choose, each with the metric that has them."""

    name: str
    title: str
    rows: tuple[Row, ...]
    variables: tuple[tuple[str, str], ...] = ()


def graph(title: str, unit: str, *queries: Query, text: str = "") -> Panel:
    return Panel(title, unit, queries, text=text)


def stat(title: str, unit: str, query: Query) -> Panel:
    return Panel(title, unit, (query,), "stat")


def latencies(title: str, histogram: str, text: str = "") -> Panel:
    return graph(title, "s", quantile(0.5, histogram), quantile(0.99, histogram), text=text)


def row(title: str, *panels: Panel) -> Row:
    return Row(title, panels)


COMMITS = latencies("From a proposal to its commit", "ledgermq_raft_commit_duration_seconds")
LAGS = "ledgermq:consumer_group_lag_messages:sum"
LAG_SECONDS = "ledgermq:consumer_group_lag_seconds:max"

OVERVIEW = Dashboard(
    "overview",
    "ledgermq / Overview",
    (
        row(
            "Now",
            stat("Nodes that answer", "short", total("up")),
            stat("Nodes that are ready", "short", total("ledgermq_node_ready")),
            stat("Shards with a leader", "short", total("ledgermq_raft_is_leader")),
            stat("Messages in", "mps", rate("ledgermq_messages_in_total")),
            stat("Messages out", "mps", rate("ledgermq_messages_out_total")),
            stat("Largest lag of a group", "short", largest(LAGS)),
            stat("Fullest disk", "percentunit", largest("ledgermq_disk_use_ratio")),
            stat("Commit p99", "s", quantile(0.99, "ledgermq_raft_commit_duration_seconds", "job").named("")),
        ),
        row(
            "Traffic",
            graph("Messages in", "mps", rate("ledgermq_messages_in_total", "topic").top(10)),
            graph("Messages out", "mps", rate("ledgermq_messages_out_total", "topic").top(10)),
            graph(
                "Bytes",
                "Bps",
                rate("ledgermq_bytes_in_total").named("in"),
                rate("ledgermq_bytes_out_total").named("out"),
            ),
            COMMITS,
            graph("Refused batches", "ops", rate("ledgermq_produce_refusals_total", "code")),
            graph("Repeated batches", "ops", rate("ledgermq_produce_duplicates_total", "instance")),
        ),
        row(
            "Nodes",
            graph("CPU", "percentunit", rate("process_cpu_seconds_total", "instance")),
            graph("Memory", "bytes", total("ledgermq_process_private_memory_bytes", "instance")),
            latencies("Event loop lag", "ledgermq_event_loop_lag_seconds", "How late the timers of a node come."),
            graph("Open files and connections", "short", total("process_open_fds", "instance")),
            graph("Shards that a node leads", "short", total("ledgermq_raft_is_leader", "instance")),
            Panel(
                "Versions", "short", (total("ledgermq_node_info", "instance, node, version, flush, write"),), "table"
            ),
        ),
    ),
)

RAFT = Dashboard(
    "raft",
    "ledgermq / Raft and replication",
    (
        row(
            "Leaders",
            graph("Leaders", "short", total("ledgermq_raft_is_leader", "shard, instance")),
            graph("Term", "short", largest("ledgermq_raft_term", "shard")),
            graph("Changes of leader", "ops", rate("ledgermq_raft_leader_changes_seen_total", "shard, instance")),
        ),
        row(
            "Replication",
            graph("Entries that followers lack", "short", largest("ledgermq_raft_follower_lag_entries", "shard, peer")),
            graph("Time since an answer", "s", largest("ledgermq_raft_peer_last_contact_seconds", "shard, peer")),
            graph(
                "Committed entries that are not applied",
                "short",
                Query(
                    f"ledgermq_raft_commit_index{OF_THE_JOB} - ledgermq_raft_applied_index{OF_THE_JOB}",
                    "shard {{shard}}, {{instance}}",
                ),
            ),
            graph("Committed entries", "ops", slope("ledgermq_raft_commit_index", "shard")),
            COMMITS,
            graph("Proposals that wait", "short", total("ledgermq_raft_proposals_pending", "instance")),
            graph("Uncommitted bytes", "bytes", total("ledgermq_raft_uncommitted_bytes", "instance")),
            graph("Proposals given up", "ops", rate("ledgermq_raft_proposals_failed_total", "instance")),
        ),
        row(
            "Trouble",
            graph(
                "Replicas with a problem",
                "short",
                total("ledgermq_raft_suspect").named("suspect"),
                total("ledgermq_raft_diverged").named("diverged"),
                total("ledgermq_raft_stopped").named("stopped applying"),
                total("ledgermq_raft_failed").named("failed disk"),
                total("ledgermq_raft_refuses_writes").named("no writes"),
                total("ledgermq_raft_unacknowledged").named("unacknowledged"),
                total("ledgermq_log_damaged").named("damaged"),
            ),
            graph("Streams opened again", "ops", rate("ledgermq_raft_streams_reopened_total", "instance")),
            graph("Clock offsets", "s", largest("ledgermq_clock_offset_seconds", "peer")),
            graph("Members", "short", largest("ledgermq_raft_members", "shard")),
            graph("Learners", "short", largest("ledgermq_raft_learners", "shard")),
            graph("Feature level", "short", largest("ledgermq_raft_feature_level", "shard")),
        ),
    ),
)

TOPICS = Dashboard(
    "topics",
    "ledgermq / Topics and groups",
    (
        row(
            "Topics",
            graph("Messages in", "mps", rate("ledgermq_messages_in_total", "topic", IN_A_TOPIC)),
            graph("Messages out", "mps", rate("ledgermq_messages_out_total", "topic", IN_A_TOPIC)),
            graph("Bytes in", "Bps", rate("ledgermq_bytes_in_total", "topic", IN_A_TOPIC)),
            graph("Bytes out", "Bps", rate("ledgermq_bytes_out_total", "topic", IN_A_TOPIC)),
        ),
        row(
            "Consumer groups",
            graph("Lag in messages", "short", largest(LAGS, "consumer_group", OF_A_GROUP)),
            graph("Lag in seconds", "s", largest(LAG_SECONDS, "consumer_group", OF_A_GROUP)),
            graph(
                "Lag by queue",
                "short",
                largest("ledgermq_consumer_group_lag_messages", "consumer_group, topic, queue", OF_A_GROUP).top(20),
            ),
            graph("Members", "short", largest("ledgermq_consumer_group_members", "consumer_group", OF_A_GROUP)),
            graph("Retries", "ops", rate("ledgermq_consumer_group_retries_total", "consumer_group", OF_A_GROUP)),
            graph(
                "Dead letters",
                "short",
                largest("ledgermq:consumer_group_dead_letters:sum", "consumer_group", OF_A_GROUP),
            ),
            graph("Assignments", "ops", rate("ledgermq_consumer_group_rebalances_total", "shard")),
        ),
        row(
            "Shared groups",
            graph("Leased messages", "short", total("ledgermq_shared_leased_messages", "consumer_group", OF_A_GROUP)),
            graph(
                "Messages handed out before",
                "short",
                total("ledgermq_shared_waiting_messages", "consumer_group", OF_A_GROUP),
            ),
            graph("Largest window", "short", largest("ledgermq_shared_window_messages", "consumer_group", OF_A_GROUP)),
            graph("Consumers", "short", largest("ledgermq_shared_members", "consumer_group", OF_A_GROUP)),
            graph(
                "Leases",
                "mps",
                rate("ledgermq_shared_leased_total").named("leased"),
                rate("ledgermq_shared_changes_total").named("acknowledged, put off, extended"),
            ),
        ),
        row(
            "Delivery times, transactions, RocketMQ",
            graph("Waiting messages", "short", largest("ledgermq_timed_waiting_messages", "shard")),
            graph("Oldest due message", "s", largest("ledgermq_timed_overdue_seconds", "shard")),
            graph(
                "Messages with delivery times",
                "mps",
                rate("ledgermq_timed_delivered_total").named("delivered"),
                rate("ledgermq_timed_cancelled_total").named("cancelled"),
            ),
            graph("Lateness", "s", quantile(0.99, "ledgermq_timed_lateness_seconds")),
            graph("Half batches", "short", largest("ledgermq_transaction_half_batches", "shard")),
            graph("Oldest half batch", "s", largest("ledgermq_transaction_oldest_seconds", "shard")),
            graph("Ends of transactions", "ops", rate("ledgermq_transactions_ended_total", "outcome")),
            graph("RocketMQ clients", "short", total("ledgermq_rocketmq_clients", "instance")),
            graph("RocketMQ receives that wait", "short", total("ledgermq_rocketmq_receives", "instance")),
        ),
    ),
    (("topic", "ledgermq_messages_in_total"), ("consumer_group", LAGS)),
)

STORAGE = Dashboard(
    "storage",
    "ledgermq / Storage",
    (
        row(
            "Disks",
            graph("Used part", "percentunit", largest("ledgermq_disk_use_ratio", "instance")),
            graph("Free", "bytes", largest("ledgermq_disk_free_bytes", "instance")),
            graph(
                "Free in four hours, at this rate",
                "bytes",
                Query(f"predict_linear(ledgermq_disk_free_bytes{OF_THE_JOB}[30m], 4 * 3600)", "{{instance}}"),
            ),
            latencies("Flushes", "ledgermq_log_flush_duration_seconds", "One fsync of the log."),
            latencies("Group writes", "ledgermq_log_append_duration_seconds"),
            graph("Flushes a second", "ops", rate("ledgermq_log_flush_duration_seconds_count", "instance")),
        ),
        row(
            "Logs",
            graph("Kept bytes", "bytes", largest("ledgermq_log_kept_bytes", "shard, instance")),
            graph("Written", "Bps", slope("ledgermq_log_end_position_bytes", "shard")),
            graph("Removed by retention", "Bps", rate("ledgermq_log_dropped_bytes_total", "instance")),
            graph("Not flushed", "bytes", total("ledgermq_log_dirty_bytes", "instance")),
            graph("Only in memory", "bytes", total("ledgermq_log_staged_bytes", "instance")),
            graph("Holds", "short", largest("ledgermq_log_holds", "shard")),
            graph("Remembered message ids", "short", largest("ledgermq_message_ids", "shard")),
        ),
        row(
            "Damage",
            graph("Damaged logs", "short", total("ledgermq_log_damaged", "instance")),
            graph("Repaired bytes", "bytes", total("ledgermq_log_repaired_bytes_total", "instance")),
            graph("Replicas without writes", "short", total("ledgermq_raft_refuses_writes", "instance")),
        ),
    ),
)

DASHBOARDS = (OVERVIEW, RAFT, TOPICS, STORAGE)
