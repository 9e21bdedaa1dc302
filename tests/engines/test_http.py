"""Errors of TLS are named; others are not taken for them."""

from __future__ import annotations

from pathlib import Path

import pytest
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


def test_the_certificates_are_those_that_the_load_trusts(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    authority = tmp_path / "ca.pem"
    authority.touch()
    monkeypatch.setenv("SSL_CERT_FILE", str(authority))
    monkeypatch.setenv("REQUESTS_CA_BUNDLE", "elsewhere")
    with session() as made:
        assert made.trust_env is False
        assert made.verify == str(authority)
