"""Makes the report of a validation, in four forms: values, text, Parquet, and a page for a browser. The page needs
jinja2 and matplotlib, which the extra `bench` installs.

This package contains:

    report.py          the report as values, from which the other forms are made
    summary.py         the report as text
    marks.py           where the pictures mark violations
    plots.py           the picture of one shard
    page.py            the page
    out_directory.py   the files in the directory given by `--out`
"""
