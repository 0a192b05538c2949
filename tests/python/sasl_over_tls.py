"""Shows tokens over TLS, one connection for each, all with the session of the first.

Usage: sasl_over_tls.py PORT AUTHORITY VERSION CERTIFICATE KEY TENANT TOKEN [TENANT TOKEN ...]

VERSION is 1.2 or 1.3. Prints for each connection whether its session is new or resumed, the code
of the answer to SaslAuthenticate, and its sentence.
"""

import socket
import ssl
import struct
import sys

TIMEOUT_S = 20
VERSIONS = {"1.2": ssl.TLSVersion.TLSv1_2, "1.3": ssl.TLSVersion.TLSv1_3}
SASL_HANDSHAKE = 17
SASL_AUTHENTICATE = 36


def receive(connection, count):
    received = b""
    while len(received) < count:
        more = connection.recv(count - len(received))
        if not more:
            sys.exit(f"closed after {len(received)} of {count} bytes")
        received += more
    return received


def call(connection, key, body):
    """Sends a request of version 1, and returns the body of the answer."""
    message = struct.pack(">hhih", key, 1, key, -1) + body
    connection.sendall(struct.pack(">i", len(message)) + message)
    (length,) = struct.unpack(">i", receive(connection, 4))
    return receive(connection, length)[4:]


def authenticate(connection, tenant, token):
    answer = call(connection, SASL_HANDSHAKE, struct.pack(">h", 5) + b"PLAIN")
    if answer[:2] != b"\0\0":
        sys.exit(f"the SASL handshake failed: {answer}")
    shown = f"\0{tenant}\0{token}".encode()
    answer = call(connection, SASL_AUTHENTICATE, struct.pack(">i", len(shown)) + shown)
    code, length = struct.unpack_from(">hh", answer)
    return code, answer[4 : 4 + max(length, 0)].decode()


def main():
    port, authority, version, certificate, key, *tokens = sys.argv[1:]
    context = ssl.create_default_context(cafile=authority)
    context.minimum_version = context.maximum_version = VERSIONS[version]
    context.load_cert_chain(certificate, key)
    session = None
    for tenant, token in zip(tokens[::2], tokens[1::2], strict=True):
        plain = socket.create_connection(("127.0.0.1", int(port)), TIMEOUT_S)
        with context.wrap_socket(plain, server_hostname="127.0.0.1", session=session) as connection:
            kind = "resumed" if connection.session_reused else "new"
            code, sentence = authenticate(connection, tenant, token)
            print(kind, code, sentence)
            # Tickets of TLS 1.3 come behind the handshake.
            session = session or connection.session


main()
