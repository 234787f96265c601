"""Benchmarks, attackers, and the papers' tables and figures, on synthetic and real data."""
