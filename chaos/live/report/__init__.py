"""The HTML page of a chaos run."""
