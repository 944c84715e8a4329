"""Judges what clients were told: histories in, anomalies out. Pure, and linear in the history but for its sorts."""
