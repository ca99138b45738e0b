"""The one exception that people are meant to read."""


class ClusterError(Exception):
    """Something the caller can act on; it is printed as one sentence, without a traceback."""
