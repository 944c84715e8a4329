"""The commands of `ledgermq rocketmq`.

mirror.py           copies topics from RocketMQ servers
mirror_report.py    what the mirror tells: progress, and an account at the end
"""

from __future__ import annotations
