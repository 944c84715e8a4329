"""The Helm chart and the manifests of deploy/, checked without a Kubernetes cluster.

This package contains, in reading order:

    chart.py                what the chart renders, as Python objects
    test_chart.py           what is in the chart, and that Kubernetes would take it
    test_cert_manager.py    nodes with the certificates that the chart asks of cert-manager
    pods.py                 the pods of a rendered StatefulSet as containers of this machine
    test_rolling_update.py  a rolling update of the StatefulSet under load
"""
