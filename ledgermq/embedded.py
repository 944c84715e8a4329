"""A durable queue in your own process and event loop, without a server. The module needs `pip install
'ledgermq[server]'`.

    from ledgermq import AsyncConsumer, AsyncProducer
    from ledgermq.embedded import EmbeddedNode

    async with EmbeddedNode("data") as node, AsyncProducer(node.bootstrap) as producer:
        await producer.send("orders", b"...")

docs/TESTING.md says what an embedded node is for, and what it is not.
"""

from cluster.node.embedded import EmbeddedNode, EmbeddedNodeError

__all__ = ["EmbeddedNode", "EmbeddedNodeError"]
