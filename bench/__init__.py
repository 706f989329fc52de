"""What kueue-flux costs and how fast it is, measured beside what one would have without it."""
