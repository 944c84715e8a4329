"""Quotas limit what one client can send or fetch. The module quota.py keeps an account for each client. The module
token_bucket.py computes how long an account must wait."""
