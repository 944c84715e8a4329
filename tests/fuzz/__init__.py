"""Calls every method of running clusters with hostile values, while an acknowledged load runs beside it.

    hostile_values.py    hostile messages, built from protobuf descriptors
    methods.py           all methods of all services, found from the generated descriptors
    callers.py           strangers, users with and without rights, and callers with proofs of others
    rocketmq_callers.py  users with and without rights, and forgers, of RocketMQ's protocol
    attack.py            the calls of these callers to gRPC methods
    answers.py           whether an answer may be as it is
    telemetry_attack.py  streams of RocketMQ's protocol that never end, or that nobody reads
    http_attack.py       requests of strangers to HTTP paths, also half and huge ones
    name_server.py       a name server beside the cluster
    harness.py           the load, and what must hold after each attack
    defects.py           the file from which calls that ended badly can be sent again
    test_fuzz.py         the clusters, their users, and what must be the same after the attack

`make fuzz` runs the attacks for an hour. The test suite runs them for two minutes.
"""
