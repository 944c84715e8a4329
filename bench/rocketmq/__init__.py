"""ledgermq beside Apache RocketMQ, each with the same unmodified RocketMQ clients.

run.py       the command: rounds in which both systems are measured in turns
systems.py   both systems on this machine, their CPU time, and how all but one are stopped
contest.py   the measurements of one client against one system
page.py      the table with ratios
apache.py    Apache's servers: a name server, three brokers that form a DLedger group, and a proxy
"""
