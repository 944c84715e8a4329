"""What a validation found, as a page for a browser. Needs jinja2 and matplotlib, which the extra `bench` brings."""
