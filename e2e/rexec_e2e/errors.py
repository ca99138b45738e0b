"""The one error of this tooling."""


class E2eError(Exception):
    """Something that a person must know; the message names the cause and, where there is one, the remedy."""
