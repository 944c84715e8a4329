"""Makes what Prometheus needs to scrape a secured cluster: `python monitoring_user.py DIRECTORY`.

In the directory are then `ca.pem` and `prometheus.password`, and the cluster has the user `prometheus` with this
password and no right but `describe` on the cluster. The environment says how to reach the cluster as an administrator
(LEDGERMQ_BOOTSTRAP, LEDGERMQ_CA, LEDGERMQ_USER, LEDGERMQ_PASSWORD_FILE). The program can run again and again: an
existing password stays.
"""

from __future__ import annotations

import os
import secrets
import shutil
import sys
from pathlib import Path

from ledgermq import Admin

NAME = "prometheus"


def main(directory: Path) -> None:
    shutil.copyfile(os.environ["LEDGERMQ_CA"], directory / "ca.pem")
    file = directory / "prometheus.password"
    with Admin(os.environ["LEDGERMQ_BOOTSTRAP"]) as admin:
        exists = any(user.name == NAME for user in admin.list_users())
        if not file.exists() or not exists:
            password = secrets.token_urlsafe(32)
            (admin.rotate_user if exists else admin.add_user)(NAME, password)
            _write(file, password + "\n")
        admin.grant(NAME, "describe", "cluster")


def _write(file: Path, text: str) -> None:
    """Write a file that only its owner can read."""
    file.unlink(missing_ok=True)
    with open(os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as opened:
        opened.write(text)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
