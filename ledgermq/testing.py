"""Real clusters for the tests of your program. The module needs `pip install 'ledgermq[testing]'`.

    from ledgermq import Producer
    from ledgermq.testing import Cluster

    with Cluster(nodes=3) as cluster, Producer(cluster.bootstrap) as producer:
        topic = cluster.create_topic()
        producer.send(topic, b"before")
        cluster.kill_leader()
        producer.send(topic, b"after")

`async with Cluster(...)` returns an `AsyncCluster`, with the same methods for asyncio. With pytest, use the fixtures
`ledgermq_cluster` and `ledgermq_topic`, or make your own with `cluster_fixture`. docs/TESTING.md is the guide.
"""

from cluster.testing.async_cluster import AsyncCluster
from cluster.testing.cluster import Cluster
from cluster.testing.fixtures import Scope, cluster_fixture
from cluster.testing.node_files import Setting
from cluster.testing.processes import ClusterError

__all__ = ["AsyncCluster", "Cluster", "ClusterError", "Scope", "Setting", "cluster_fixture"]
