"""Judges whether others than this process can read a file with a secret."""

from __future__ import annotations

import os
import stat


def others_can_read(path: os.PathLike[str], user: int | None = None) -> bool:
    """Return whether others than the process of `user` (None: of this process) can read or change the file. Raises
    OSError.

    The group may read a file of root, if the process is not root. Secrets of orchestrators such as Kubernetes are such
    files: root owns them, and the group is that of the pod.
    """
    found = os.stat(path)
    user = os.geteuid() if user is None else user
    allowed = stat.S_IRWXU
    if found.st_uid == 0 and user != 0:
        allowed |= stat.S_IRGRP
    return bool(stat.S_IMODE(found.st_mode) & ~allowed & 0o777)
