"""Measures the store alone: appends, hints to the page cache, indexes. Each module is a command."""
