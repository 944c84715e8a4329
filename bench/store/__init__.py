"""Measures the store alone, without brokers: appends, hints to the page cache, and indexes. Each module of this
package is a command."""
