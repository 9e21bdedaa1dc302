"""Errors of TLS are named; others are not taken for them."""

from __future__ import annotations

import requests

from engines.http import certificate_problem, session


def test_the_problem_of_a_certificate_is_named_with_the_way_out() -> None:
    error = requests.exceptions.SSLError(
        "SSLCertVerificationError(1, '[SSL: CERTIFICATE_VERIFY_FAILED] certificate verify failed: self-signed"
        " certificate (_ssl.c:1006)')"
    )
    assert certificate_problem(error) == (
        "certificate verify failed: self-signed certificate; trust a private CA with --ca FILE or SSL_CERT_FILE"
    )
    assert certificate_problem(requests.ConnectionError("refused")) is None


def test_neither_proxies_nor_the_certificates_of_requests_are_used() -> None:
    with session() as made:
        assert made.trust_env is False
        assert made.verify is True or "certifi" not in str(made.verify)
