"""The name server: it tells clients where the nodes, leaders and topics are.

In reading order:

    registrations.py  collects the reports of nodes and computes routes from them
    service.py        the gRPC services for nodes and for clients
"""
