"""The control loop: what a MiniCluster needs next, as a short list of named steps."""
