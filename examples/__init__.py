"""Examples; `demo` is what `make demo` runs."""
