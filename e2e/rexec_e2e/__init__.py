"""What the demo, the end-to-end tests and the benchmarks share. The standard library alone, so that it can start anywhere."""
