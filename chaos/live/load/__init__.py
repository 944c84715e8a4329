"""The clients of a chaos run: processes that load the cluster and write histories. This package uses the load
generators of cluster/load.

In reading order:

    processes.py      starts, kills, replaces and stops the client processes
    spec.py           what a run tells a client process, as a JSON file
    client.py         the program of a client process
    running.py        starts a client, also if nodes are down
    call_pace.py      calls that are due at equal intervals
    producing.py      the producers
    waiting.py        messages with delivery times, of which some are cancelled
    transacting.py    transactions, and answers to the checks about them
    decisions.py      what the transactions of a run shall be: a database of all client processes
    sharing.py        messages with keys for shared groups, and members that lease them
    consuming.py      the consumers
    final_reading.py  reads every queue from every node at the end
"""
