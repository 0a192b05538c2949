"""What the three programs share: arguments, and a line for each cell. tests/clients/README.md says
what they mean."""

import logging
import sys
import time

GIVEN = "given.read"
FORMS = "given.forms"
HEADERS = [("a", b"1"), ("a", b"2"), ("b", None), ("c", b"")]
# Key and value of the records that have one of them null or empty.
NULLS = [(b"null-value", None), (b"empty-value", b""), (None, b"null-key"), (b"", b"empty-key")]
TIME_MS = 1_700_000_055_500
TIMEOUT_S = 20
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")


class Limit(Exception):
    """What the client itself cannot do."""


class Log(logging.Handler):
    """The first error that a client tells its log, where a user finds what its exceptions leave out."""

    def __init__(self):
        super().__init__(logging.ERROR)
        self.first = None

    def emit(self, record):
        self.first = self.first or record.getMessage()

    def beside(self, error):
        """What an exception tells, and what the log has."""
        return f"{error}; in its log: {self.first}" if self.first else error


class Options:
    """The arguments NAME=VALUE, and the cells asked for."""

    def __init__(self, args):
        given = dict(arg.split("=", 1) for arg in args if "=" in arg)
        self.cells = [arg for arg in args if "=" not in arg]
        self.bootstrap = given["bootstrap"]
        self.name = given["name"]
        self.lossy = given.get("lossy")
        self.ca = given.get("ca")
        self.user = given.get("user")
        self.password = given.get("password")
        sasl = "SASL_" if self.user else ""
        self.protocol = sasl + ("SSL" if self.ca else "PLAINTEXT")

    def topic(self, suffix):
        """A topic of this client's own."""
        return f"{self.name}.{suffix}"


def numbered(cell, count):
    """The values of a cell that produces so many records."""
    return [f"{cell}-{number}".encode() for number in range(count)]


def seen(records):
    """Records (offset, value) as a detail."""
    return " ".join(f"{offset}:{value.decode()}" for offset, value in records)


def seen_headers(headers):
    """Headers as a detail."""
    return " ".join(f"{name}={text(value)}" for name, value in headers)


def seen_pairs(records):
    """Records (key, value) as a detail."""
    return " ".join(f"{text(key)}={text(value)}" for key, value in records)


def text(value):
    """Bytes, or the lack of them."""
    return "null" if value is None else value.decode()


def line(cell, state, detail, begin):
    """Tells how a cell went."""
    took_ms = int((time.monotonic() - begin) * 1000)
    print(cell, state, " ".join(str(detail).split()), took_ms, sep="\t", flush=True)


def told(error):
    """What a user sees of an error."""
    return str(error) or type(error).__name__


def main(cells):
    """Runs what the arguments ask for. `cells` maps a name to a function of the options."""
    options = Options(sys.argv[1:])
    for cell in options.cells:
        begin = time.monotonic()
        log = Log()
        logging.getLogger().handlers = [log]
        try:
            line(cell, "ok", cells[cell](options), begin)
        except Exception as error:  # Whatever a client raises is what the cell tells.
            line(cell, "no", log.beside(told(error)), begin)
