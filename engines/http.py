"""HTTP sessions of the driver to an engine, with the same trusted certificates as the load."""

from __future__ import annotations

import re

import requests

from records.endpoint import trusted_certificates


def certificate_problem(error: Exception) -> str | None:
    """The message for an error of TLS; None for any other error."""
    if not isinstance(error, requests.exceptions.SSLError):
        return None
    cause = re.search(r"certificate verify failed: [^(]+", str(error))
    problem = cause[0].strip() if cause else f"TLS failed: {str(error)[:200]}"
    return f"{problem}; trust a private CA with --ca FILE or SSL_CERT_FILE"


def session() -> requests.Session:
    """A session without proxies and passwords of the environment.

    A proxy must not come between the driver and an engine, and .netrc must not add a password. Certificates are those
    of OpenSSL (`SSL_CERT_FILE` or the system's), as for the load, not those of the package requests.
    """
    made = requests.Session()
    made.trust_env = False
    made.verify = trusted_certificates() or True
    return made
