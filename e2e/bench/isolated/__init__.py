"""Isolated calls straight at a runtime server, signatures checked, without TLS and without a gateway."""
