"""Quotas of clients: quota.py keeps an account for each client, token_bucket.py is the arithmetic."""
