"""The code that the reports of `ledgermq validate`, `ledgermq chaos` and `make bench` share.

    page.py       renders one HTML file that a browser shows without any network (jinja2)
    base.html     the frame of every page and its style; parts.html: the pieces that pages repeat
    figures.py    draws figures in one style and writes the same bytes for the same figure (matplotlib)
    text.py       Markdown tables and JSON files; it needs neither library

The extras `bench` and `chaos` install jinja2 and matplotlib. Outside of this package's users, no module imports jinja2
or matplotlib.
"""
