"""A small controller runtime on kubernetes.aio. Knows nothing of MiniClusters."""
