"""The one error of this tool."""


class ImagesError(Exception):
    """Something a person must change; the message names the cause and the remedy."""
