"""Clusters for the demo, the tests and the benchmarks: kind, and a control plane as plain processes."""
