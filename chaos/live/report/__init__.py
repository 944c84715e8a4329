"""The HTML page of a chaos run.

In reading order:

    series.py    throughput and latency over time
    headline.py  the first sentence: what struck the cluster, and what the clients saw
    plots.py     the picture, with faults shaded and leaders marked
    page.py      the page as one HTML file
"""
