"""The name server: it tells clients where the nodes, leaders and topics are.

registrations.py  the reports of nodes, and the routes that follow from them
service.py        the gRPC service
"""
