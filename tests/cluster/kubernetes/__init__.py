"""The Helm chart and the manifests of deploy/, checked without a Kubernetes cluster.

chart.py                what the chart renders, as Python objects
pods.py                 the pods of a rendered StatefulSet as containers of this machine
test_chart.py           what is in the chart, and that Kubernetes would take it
test_rolling_update.py  a rolling update of the StatefulSet under load
"""
