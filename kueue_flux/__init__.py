"""Run Flux under Kueue: each MiniCluster becomes one suspended Indexed Job, and gets its Flux files at admission."""
