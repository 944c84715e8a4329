"""The common code of the reports that `ledgermq validate`, `ledgermq chaos` and `make bench` write.

    page.py       renders one HTML file that a browser shows without any network (jinja2)
    base.html     the frame and the style of every page
    palette.css   the colours, which the console has too
    neighbours.py links the reports that lie beside each other
    parts.html    the elements that several pages use
    figures.py    draws figures in one style and writes the same bytes for the same figure (matplotlib)
    text.py       writes Markdown tables and JSON files, and needs neither jinja2 nor matplotlib

The extras `bench` and `chaos` install jinja2 and matplotlib. Only the code of reports imports jinja2 and matplotlib.
"""
