"""`make laptop`: gateway and runtime server as plain processes on loopback, without Kubernetes, until Ctrl-C."""

import signal
import sys

from . import processes, venvs
from .errors import E2eError
from .processes import LOOPBACK
from .steps import say


def main() -> int:
    """Start both, say how to use them, and wait."""
    try:
        python = venvs.venv("client") / "bin" / "python"
        with processes.stack() as stack:
            print(
                f"\nCalls run in {stack.home}, by the Python of {venvs.venv('server')} (numpy is in it).\n"
                f"In another terminal:\n\n"
                f"    GATEWAY={LOOPBACK}:{stack.zmtp_port} TOKEN=any {python} examples/remote_call.py\n\n"
                "Ctrl-C ends it.",
                flush=True,
            )
            signal.pause()
    except KeyboardInterrupt:
        return 0
    except E2eError as error:
        say(f"laptop: {error}")
        return 1
    return 0


if __name__ == "__main__":
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.default_int_handler)
    sys.exit(main())
