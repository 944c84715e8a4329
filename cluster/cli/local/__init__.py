"""Commands that run a cluster on this machine.

This package contains, in reading order:

    dev.py           `ledgermq dev`
    containers.py    finds a cluster that runs in containers
    demo.py          `ledgermq demo`
    demo_report.py   shows the progress and the result of the demo
"""
