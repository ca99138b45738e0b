"""A remote call with the public client.

pip install scidx-rexec==0.1.0, then, with the gateway's address and a token of the user whose environment it is:

    GATEWAY=HOST:PORT TOKEN=… python remote_call.py
"""

import os
import sys

from rexec.client_api import remote_func

host, _, port = os.environ["GATEWAY"].rpartition(":")
remote_func.set_remote_addr(host)
remote_func.set_remote_port(port)
remote_func.set_exec_token(os.environ["TOKEN"])


@remote_func
def estimate_pi(rounds, samples):
    """Runs on the server: what it needs, it imports itself."""
    import numpy

    print(f"numpy {numpy.__version__}, {rounds} rounds of {samples} points")
    inside = 0
    random = numpy.random.default_rng(seed=1)
    for number in range(1, rounds + 1):
        points = random.random((samples, 2))
        inside += int((numpy.square(points).sum(axis=1) <= 1).sum())
        print(f"round {number}: {4 * inside / (number * samples):.5f}")
    return 4 * inside / (rounds * samples)


result = estimate_pi(3, 200_000)
print("result:", result)
sys.exit(0 if isinstance(result, float) and abs(result - 3.1416) < 0.01 else 1)
