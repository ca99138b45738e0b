"""HTTP connections that are made inside a cluster's network, also when the library opens one anew by itself."""

import http.client
import ssl

from .namespaces import connect


class InsideConnection(http.client.HTTPConnection):
    """HTTP, or HTTPS when a TLS context is given, from the network of process `pid`."""

    def __init__(self, pid: int, address: str, port: int, timeout: float, tls: ssl.SSLContext | None = None) -> None:
        super().__init__(address, port, timeout=timeout)
        self._pid, self._seconds, self._tls = pid, timeout, tls

    def connect(self) -> None:
        plain = connect(self._pid, self.host, self.port, self._seconds)
        self.sock = self._tls.wrap_socket(plain, server_hostname=self.host) if self._tls else plain
