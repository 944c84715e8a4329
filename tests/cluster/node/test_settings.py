"""Every wrong setting gives an error message that names the setting."""

from __future__ import annotations

from pathlib import Path

import pytest
from pydantic import SecretStr

from cluster.node.replica.retention import bounds_of
from cluster.node.settings import MIB, NodeSettings, SettingsError
from ledger.broker.retention.retention import RetentionLimits
from store import Writing

GOOD = """
node = 1
data = "/data"
[peers]
1 = "a:1"
2 = "b:2"
3 = "c:3"
"""


@pytest.fixture(autouse=True)
def clean_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (*NodeSettings.model_fields, "bootstrap"):
        monkeypatch.delenv(f"LEDGERMQ_{name.upper()}", raising=False)


def load(tmp_path: Path, text: str) -> NodeSettings:
    path = tmp_path / "node.toml"
    path.write_text(text)
    return NodeSettings.load(path)


def refusal(tmp_path: Path, text: str) -> str:
    with pytest.raises(SettingsError) as refused:
        load(tmp_path, text)
    return str(refused.value)


def test_a_file_gives_settings_with_defaults(tmp_path: Path) -> None:
    settings = load(tmp_path, GOOD)
    assert settings.peers == {1: "a:1", 2: "b:2", 3: "c:3"}
    assert settings.data == Path("/data")
    assert (settings.flush, settings.flush_interval_ms, settings.segment_bytes) == ("async", 500, 1024 * MIB)
    assert (settings.tick_ms, settings.heartbeat_ticks, settings.election_ticks) == (50, 2, 10)
    assert settings.writing == Writing(), "written directly, with no hints"
    assert settings.advertised == "a:1", "clients are told the address that its peers use"


def test_the_environment_wins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LEDGERMQ_FLUSH", "sync")
    monkeypatch.setenv("LEDGERMQ_PEERS", "1=x:1, 7=y:2")
    monkeypatch.setenv("LEDGERMQ_ADVERTISED", "public:99")
    settings = load(tmp_path, GOOD)
    assert settings.flush == "sync"
    assert settings.peers == {1: "x:1", 7: "y:2"}
    assert settings.advertised == "public:99"


def test_every_setting_can_come_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    given = {
        "node": 2, "cluster": "prod", "data": "/d", "listen": "0.0.0.0:1", "advertised": "h:2", "http": "",
        "rocketmq": "127.0.0.1:8081", "rocketmq_tls": "0.0.0.0:8082", "rocketmq_outside_host": "out",
        "rocketmq_max_delay_hours": 48.0, "rocketmq_utc_offsets_hours": "0,5.5", "console": "off",
        "peers": "2=h:2", "flush": "sync", "flush_interval_ms": 7, "segment_bytes": 8 * MIB,
        "max_message_bytes": 2 * MIB, "tick_ms": 11, "heartbeat_ticks": 3, "election_ticks": 12, "join": True,
        "preferred_leader": 2, "serve_segments": False, "retention_hours": 1.5, "retention_bytes": 5,
        "cleaning_hour": 4, "disk_clean_ratio": 0.1, "disk_force_ratio": 0.2, "disk_refuse_ratio": 0.3,
        "retention_check_ms": 20, "replace_after_ms": 30_000, "catch_up_bytes_per_s": 9,
        "timed_max_days": 7.5, "timed_waiting_bytes": 6,
        "transaction_check_after_s": 2.5, "transaction_check_every_s": 3.5, "transaction_checks": 4,
        "transaction_max_hours": 5.5,
        "index_data": "/i", "flush_pages": 9, "flush_thorough_ms": 900, "write": "staged",
        "staged_segments": 5, "write_out_interval_ms": 20, "busy_ms": 77, "warm": True, "lock_memory": True,
        "read_ahead": "random", "retry_delays_s": "1,2.5", "shards": 3, "spread_leaders": False,
        "nameservers": "n:1,n:2", "produce_quota_bytes_per_s": 1, "produce_quota_messages_per_s": 2,
        "fetch_quota_bytes_per_s": 3, "fetch_quota_messages_per_s": 4, "room": "north",
        "outside": "2=out:2,3=out:3", "boot_id_file": "/b",
        "tls_certificate": "/c", "tls_key": "/k", "tls_ca": "/a", "cluster_secret_file": "/s", "insecure": True,
        "secrets_key_file": "/r",
        "allowed_nodes": "a.b,10.0.0.0/8",
        "max_connections": 90, "max_connections_per_host": 30, "max_http_connections": 20, "max_unread_bytes": 16 * MIB,
        "max_http_connections_per_host": 5, "http_idle_ms": 700, "max_downloads": 9, "max_downloads_per_caller": 3,
        "min_download_bytes_per_s": 1000,
        "authentication": True, "first_administrator": "root", "first_administrator_password_file": "/p",
        "first_administrator_password": "correct horse",
        "slow_request_ms": 12.5, "otel_endpoint": "http://c:4317", "log_format": "json", "log_level": "debug",
    }  # fmt: skip
    assert given.keys() == NodeSettings.model_fields.keys()
    for key, value in given.items():
        monkeypatch.setenv(f"LEDGERMQ_{key.upper()}", str(value))
    settings = NodeSettings.load(None)
    expected = {
        **given,
        "data": Path("/d"),
        "index_data": Path("/i"),
        "peers": {2: "h:2"},
        "retry_delays_s": (1.0, 2.5),
        "rocketmq_utc_offsets_hours": (0.0, 5.5),
        "nameservers": ("n:1", "n:2"),
        "outside": {2: "out:2", 3: "out:3"},
        "boot_id_file": Path("/b"),
        "allowed_nodes": ("a.b", "10.0.0.0/8"),
        "tls_certificate": Path("/c"),
        "tls_key": Path("/k"),
        "tls_ca": Path("/a"),
        "cluster_secret_file": Path("/s"),
        "secrets_key_file": Path("/r"),
        "first_administrator_password_file": Path("/p"),
        "first_administrator_password": SecretStr("correct horse"),
    }
    assert settings.model_dump() == expected


def test_foreign_variables_of_our_prefix_are_no_settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LEDGERMQ_BOOTSTRAP", "a:1")
    monkeypatch.setenv("LEDGERMQ_SERVICE_HOST", "10.0.0.1")
    assert load(tmp_path, GOOD).node == 1


def test_settings_are_frozen(tmp_path: Path) -> None:
    settings = load(tmp_path, GOOD)
    with pytest.raises(ValueError, match="frozen"):
        settings.node = 2


@pytest.mark.parametrize(
    ("more", "named"),
    [
        ("segment_byte = 5", "`segment_byte` is not a setting; did you mean `segment_bytes`?"),
        ("zzz = 1", "`zzz` is not a setting"),
        ("max_http_connections_per_host = 1001", "`max_http_connections_per_host` (1,001) must not be more than"),
        ("max_downloads = 4", "`max_downloads_per_caller` (8) must not be more than `max_downloads` (4)"),
        ('listen = "nowhere"', "`listen`: 'nowhere' is not an address"),
        ('http = "host:0"', "`http`: 'host:0' is not an address"),
        ('http = "::1:80"', "`http`: '::1:80' is not an address"),
        ('flush = "never"', "`flush`: input should be 'async' or 'sync'"),
        ('write = "slowly"', "`write`: input should be 'direct', 'mapped' or 'staged'"),
        ("staged_segments = 0", "`staged_segments`: input should be greater than or equal to 1"),
        ("flush_interval_ms = 20000", "`flush_thorough_ms` (10000) must not be less than `flush_interval_ms` (20000)"),
        ('index_data = "/data"', "`index_data` is the same directory as `data`: leave `index_data` out"),
        ("segment_bytes = 4096", "`segment_bytes`: input should be greater than or equal to"),
        ("segment_bytes = 5000000", "`segment_bytes`: input should be a multiple of 4096"),
        ("segment_bytes = 4194304", "`segment_bytes` (4,194,304) must be at least the size of the largest entry"),
        ("heartbeat_ticks = 10", "`election_ticks` (10) must be larger than `heartbeat_ticks` (10)"),
        ('cluster = ""', "`cluster`:"),
        ("retention_hours = -1", "`retention_hours`: input should be greater than or equal to 0"),
        ("retention_bytes = -1", "`retention_bytes`: input should be greater than or equal to 0"),
        ("cleaning_hour = 24", "`cleaning_hour`: input should be less than or equal to 23"),
        ("disk_refuse_ratio = 90", "`disk_refuse_ratio`: input should be less than or equal to 1"),
        (
            "disk_force_ratio = 0.95",
            "must rise in this order (a ratio of 0 is off and does not count); they are 0.75, 0.95, 0.9",
        ),
        ("disk_force_ratio = 0\ndisk_refuse_ratio = 0.7", "they are 0.75, 0, 0.7"),
        ('outside = {1 = "x:1", 2 = "x:1"}', "`outside` gives two nodes the same address"),
        ('outside = {1 = "x"}', "`outside` 1: 'x' is not an address"),
        ('outside = {1 = "b:2"}', "`outside` gives node 1 the address that node 2 has among `peers`"),
        ("outside = 5", "`outside`: input should be a valid dictionary"),
    ],
)
def test_a_wrong_setting_is_named(tmp_path: Path, more: str, named: str) -> None:
    assert named in refusal(tmp_path, f"{more}\n{GOOD}")


def test_a_list_with_a_wrong_item_is_not_called_too_short(tmp_path: Path) -> None:
    said = refusal(tmp_path, f"retry_delays_s = [0]\n{GOOD}")
    assert "`retry_delays_s` 0: input should be greater than 0" in said
    assert "at least 1 item" not in said
    assert "at least 1 item" in refusal(tmp_path, f"retry_delays_s = []\n{GOOD}")


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("", "`node` must be set, here or as LEDGERMQ_NODE"),
        ("", "`data` must be set"),
        ("", "`peers` must be set"),
        (GOOD.replace("node = 1", "node = 4"), "`peers` names the nodes 1, 2, 3, but not this node, 4"),
        (GOOD.replace("node = 1", "node = 0"), "`node`: input should be greater than or equal to 1"),
        (GOOD.replace("b:2", "a:1"), "`peers` gives two nodes the same address"),
        (GOOD.replace("b:2", "b"), "`peers` 2: 'b' is not an address"),
        (GOOD.replace("2 =", "two ="), "`peers` two: input should be a valid integer"),
        ("node = ", "is not TOML"),
    ],
)
def test_what_is_missing_or_contradicts_is_named(tmp_path: Path, text: str, named: str) -> None:
    assert named in refusal(tmp_path, text)


@pytest.mark.parametrize("peers", ["", '[peers]\n4 = "d:4"', '[peers]\n1 = "a:1"'], ids=["none", "itself", "another"])
def test_a_node_that_joins_needs_no_peers(tmp_path: Path, peers: str) -> None:
    settings = load(tmp_path, f'node = 4\njoin = true\ndata = "/data"\n{peers}')
    assert settings.join
    assert settings.addresses.get(4) == ("d:4" if "d:4" in peers else None), "others know its address, it need not"


TLS = 'tls_certificate = "/c"\ntls_key = "/k"\ntls_ca = "/a"\n'


@pytest.mark.parametrize(
    ("settings", "why"),
    [
        ('listen = "0.0.0.0:9871"', "`listen` is 0.0.0.0:9871, which other machines can reach"),
        ('http = "10.0.0.1:9872"', "`http` is 10.0.0.1:9872, which other machines can reach"),
        ('listen = "0.0.0.0:9871"\n' + TLS, "or write `insecure = true`"),
        ('listen = "0.0.0.0:9871"\nauthentication = true\ncluster_secret_file = "/s"', "or write `insecure = true`"),
        ('tls_certificate = "/c"', "`tls_key` is missing"),
        ("authentication = true", "`authentication` needs nodes that prove themselves"),
        ('first_administrator = "a b"', "not a valid user name"),
    ],
)
def test_a_node_is_secure_unless_someone_says_otherwise(tmp_path: Path, settings: str, why: str) -> None:
    assert why in refusal(tmp_path, settings + "\n" + GOOD)


@pytest.mark.parametrize(
    "settings",
    [
        'listen = "127.0.0.1:9871"\nhttp = "[::1]:9872"',
        'listen = "0.0.0.0:9871"\ninsecure = true',
        'listen = "0.0.0.0:9871"\nauthentication = true\n' + TLS,
    ],
)
def test_loopback_tls_with_authentication_and_said_insecurity_are_accepted(tmp_path: Path, settings: str) -> None:
    load(tmp_path, settings + "\n" + GOOD)


def test_no_password_is_in_the_text_of_the_settings(tmp_path: Path) -> None:
    settings = load(tmp_path, 'first_administrator_password = "correct horse"\n' + GOOD)
    assert "horse" not in f"{settings!r} {settings}"


def test_a_node_that_joins_may_be_told_its_address(tmp_path: Path) -> None:
    settings = load(tmp_path, 'node = 4\njoin = true\ndata = "/data"\nadvertised = "public:1"')
    assert settings.addresses == {4: "public:1"}


def test_a_node_may_join_by_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for key, value in {"NODE": "4", "DATA": "/d", "JOIN": "yes"}.items():
        monkeypatch.setenv(f"LEDGERMQ_{key}", value)
    settings = NodeSettings.load(None)
    assert (settings.join, settings.peers, settings.preferred_leader) == (True, {}, 0)


def test_no_peers_at_all(tmp_path: Path) -> None:
    assert "`peers` is empty" in refusal(tmp_path, 'node = 4\ndata = "/data"\npeers = {}')


def test_all_faults_are_told_at_once(tmp_path: Path) -> None:
    lines = refusal(tmp_path, f'flush = "x"\nunknown = 1\n{GOOD}').splitlines()
    assert len(lines) == 2
    assert all(line.startswith(str(tmp_path / "node.toml")) for line in lines)


@pytest.mark.parametrize(
    ("peers", "named"),
    [("1=a:1,1=b:2", "names a node twice"), ("junk", "is not of the form"), ("1=a", "'a' is not an address")],
)
def test_wrong_peers_in_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, peers: str, named: str
) -> None:
    monkeypatch.setenv("LEDGERMQ_PEERS", peers)
    sentence = refusal(tmp_path, GOOD)
    assert sentence.startswith("environment: `peers`")
    assert named in sentence


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="cannot be read"):
        NodeSettings.load(tmp_path / "missing.toml")


def test_what_is_kept_by_default_and_with_all_of_it_off(tmp_path: Path) -> None:
    bounds = bounds_of(load(tmp_path, GOOD))
    assert bounds == RetentionLimits(
        age_ms=72 * 3_600_000, clean_ratio=0.75, force_ratio=0.85, refuse_ratio=0.9, size_bytes=0, cleaning_hour=None
    )
    off = "retention_hours = 0\ndisk_clean_ratio = 0\ndisk_force_ratio = 0\ndisk_refuse_ratio = 0"
    assert bounds_of(load(tmp_path, f"{off}\n{GOOD}")) == RetentionLimits()
