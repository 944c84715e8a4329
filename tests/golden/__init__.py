"""Data directories that earlier programs wrote, one for each feature level, and tests that this program reads them.

This package contains, in reading order:

    program.py             the program of an earlier commit, in a directory of its own
    content.py             what is written into each data directory; it runs with the clients of the old program
    make.py                makes `level-N.tar.xz`
    test_golden.py         reads every `level-N.tar.xz`
    wire.py                writes down the messages and methods of the gRPC services, as `wire.txt` keeps them
    test_wire.py           what a released program sends and reads is still there
    test_formats_page.py   docs/FORMATS.md says what the code does

`level-N.tar.xz` has the data directory of one node, and `content.json`, in which the old program's own consumers wrote
down what they read.
"""
