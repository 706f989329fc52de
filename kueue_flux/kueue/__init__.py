"""Kueue's vocabulary, pure: its labels, annotations and reasons, and what a Workload says of an admission."""
