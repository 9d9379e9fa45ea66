"""Benchmarks: ratios measured within one run; `make bench` prints them all."""
