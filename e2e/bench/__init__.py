"""`make bench`: measures, prints a table, and writes target/bench."""
