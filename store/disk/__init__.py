"""The disk interface, through which the store reaches all bytes that outlive the process.

This package contains, in reading order:

    disk.py          the interface, and its implementation with the operating system's files
    memory_disk.py   an in-memory disk whose process can be killed at any byte
    paging.py        hints to the kernel about mapped memory
    reserve.py       disk space kept for the small files of a start or stop on a full disk
    numbered.py      file names that are 20-digit numbers
"""
