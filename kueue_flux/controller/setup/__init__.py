"""The FluxSetup's control loop: facts from the stores, a plan of what to write, the status; `wiring` starts it."""
