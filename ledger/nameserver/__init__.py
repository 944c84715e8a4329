"""The name server: who is where, for clients that do not know the nodes.

registrations.py  what nodes said last, and what follows of all of it
service.py        the gRPC rim
"""
