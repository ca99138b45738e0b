"""Writes the OCI archives of our images: no Docker, no privilege, and the same bytes for the same content."""
