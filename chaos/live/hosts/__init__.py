"""The places where the nodes of a chaos run live, behind one interface: processes in network namespaces, or
containers.
"""
