"""Calls every method of a running cluster with hostile values, while an acknowledged load runs beside it.

    hostile_values.py  hostile messages, built from protobuf descriptors
    methods.py         all methods of all services, found from the generated descriptors
    attack.py          strangers that call gRPC methods and HTTP paths
    test_fuzz.py       the cluster, the load, and what must hold after the attack

`make fuzz` runs the attack for an hour. The test suite runs it for two minutes.
"""
