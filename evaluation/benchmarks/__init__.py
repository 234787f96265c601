"""Benchmarks: speeds and sizes as ratios, both sides measured in one run."""
