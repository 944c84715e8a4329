"""Clusters on this machine.

dev.py         `ledgermq dev`; containers.py finds clusters of containers
demo.py        `ledgermq demo`; demo_report.py shows its progress and its result
"""
