"""ledgermq beside Apache RocketMQ, each with the same unmodified RocketMQ clients.

apache.py    Apache's servers: a name server, three brokers that form a DLedger group, and proxies
"""
