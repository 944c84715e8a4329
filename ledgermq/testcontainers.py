"""A node in a container, for users of the library testcontainers. The module needs `pip install testcontainers`, a
Docker engine, and the image that `make image` makes.

    from ledgermq import Producer
    from ledgermq.testcontainers import LedgermqContainer

    with LedgermqContainer() as ledgermq, Producer(ledgermq.bootstrap) as producer:
        ...
"""

from cluster.testing.container import LedgermqContainer
from cluster.testing.processes import ClusterError

__all__ = ["ClusterError", "LedgermqContainer"]
