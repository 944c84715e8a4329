"""What a chaos run showed, as a page for a browser."""
