"""The command `ledgermq doctor` lists what is wrong with a cluster, the most urgent first, each with the command that
helps.

    observation.py   what the doctor asks the nodes, and the answers
    metrics.py       figures from a node's /metrics
    certificates.py  when the certificate of a node ends
    findings.py      what is wrong, as a pure function of the observation
    command.py       `ledgermq doctor`
"""
