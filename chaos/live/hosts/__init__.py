"""The environments in which the nodes of a chaos run are started: processes in network namespaces, or containers. Both
kinds implement the interface `NodeEnvironment`.
"""
