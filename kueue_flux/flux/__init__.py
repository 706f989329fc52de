"""Flux's own file formats, pure: text in, text out. Knows nothing of Kubernetes."""
