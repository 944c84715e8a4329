"""The command `ledgermq doctor` lists what is wrong with a cluster, the most urgent first, each with the command that
helps.

    observation.py   what the doctor asks the nodes, and the answers
    metrics.py       figures from a node's /metrics
    certificates.py  when the certificate of a node ends
    finding.py       one finding: what is wrong, its urgency, and the command that helps
    durability.py    what the nodes' settings make of an acknowledgement, and which holds keep the log
    findings.py      what is wrong, as a pure function of the observation
    command.py       `ledgermq doctor`
"""
