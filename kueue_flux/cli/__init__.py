"""The kueue-flux command, also installed as the kubectl plugin `kubectl kueue-flux`."""
