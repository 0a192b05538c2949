"""Connects, waits before it begins its TLS handshake, and then says nothing more.

Usage: late_tls.py PORT AUTHORITY WAIT_S

Prints how many milliseconds after it connected the broker closed the connection.
"""

import socket
import ssl
import sys
import time

TIMEOUT_S = 60


def main():
    port, authority, wait_s = sys.argv[1:]
    context = ssl.create_default_context(cafile=authority)
    plain = socket.create_connection(("127.0.0.1", int(port)), TIMEOUT_S)
    connected = time.monotonic()
    time.sleep(float(wait_s))
    with context.wrap_socket(plain, server_hostname="127.0.0.1") as connection:
        if connection.recv(1):
            sys.exit("the broker says something unasked")
        print(round(1000 * (time.monotonic() - connected)))


main()
