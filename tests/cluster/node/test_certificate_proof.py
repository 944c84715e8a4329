"""Tests of the proof by certificates: which chains count, and what a hostile chain costs."""

from __future__ import annotations

import math
import random
import time
from datetime import UTC, datetime, timedelta

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from cluster.node.security.certificate_proof import MAX_CERTIFICATES, proven_uris

Key = ec.EllipticCurvePrivateKey | rsa.RSAPrivateKey
URI = "ledgermq://test/user/alice"
CONTENT = b"what both sides chose"
NOW = datetime.now(UTC)


def certificate(subject: str, key: Key, issuer: str, signer: Key, *, signs: bool) -> x509.Certificate:
    """Return a certificate of `key`, signed by `signer`. `signs`: it may sign other certificates."""
    builder = (
        x509.CertificateBuilder()
        .subject_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, subject)]))
        .issuer_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, issuer)]))
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(NOW - timedelta(days=1))
        .not_valid_after(NOW + timedelta(days=1))
        .add_extension(x509.BasicConstraints(signs, None), critical=True)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(signer.public_key()), critical=False)
    )
    if signs:
        usage = x509.KeyUsage(False, False, False, False, False, True, True, False, False)
        builder = builder.add_extension(usage, critical=True).add_extension(
            x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False
        )
    else:
        names = x509.SubjectAlternativeName([x509.UniformResourceIdentifier(URI)])
        purposes = x509.ExtendedKeyUsage([ExtendedKeyUsageOID.CLIENT_AUTH])
        builder = builder.add_extension(names, critical=False).add_extension(purposes, critical=False)
    return builder.sign(signer, hashes.SHA256())


def pem(*certificates: x509.Certificate) -> bytes:
    return b"".join(each.public_bytes(serialization.Encoding.PEM) for each in certificates)


def new_key() -> ec.EllipticCurvePrivateKey:
    return ec.generate_private_key(ec.SECP256R1())


def signed(key: ec.EllipticCurvePrivateKey) -> bytes:
    return key.sign(CONTENT, ec.ECDSA(hashes.SHA256()))


def slow_key() -> rsa.RSAPrivateKey:
    """Return a key whose signatures take long to check, because its public exponent is as long as its modulus."""
    private = rsa.generate_private_key(65537, 3072).private_numbers()
    p, q, rng = private.p, private.q, random.Random(1)
    totient = (p - 1) * (q - 1)
    e = next(e for e in iter(lambda: rng.getrandbits(3070) | 1, 0) if math.gcd(e, totient) == 1)
    d = pow(e, -1, totient)
    numbers = rsa.RSAPrivateNumbers(
        p, q, d, d % (p - 1), d % (q - 1), rsa.rsa_crt_iqmp(p, q), rsa.RSAPublicNumbers(e, p * q)
    )
    return numbers.private_key(unsafe_skip_rsa_key_validation=True)


AUTHORITY = new_key()
CA = certificate("authority", AUTHORITY, "authority", AUTHORITY, signs=True)


def test_a_certificate_of_the_authority_counts_with_the_signature_of_its_key() -> None:
    key = new_key()
    first = certificate("alice", key, "authority", AUTHORITY, signs=False)
    assert proven_uris(pem(CA), pem(first), signed(key), CONTENT) == [URI]
    assert proven_uris(pem(CA), pem(first), signed(key), b"another content") is None
    assert proven_uris(pem(CA), pem(first), signed(new_key()), CONTENT) is None


def test_a_chain_over_an_intermediate_authority_counts_with_or_without_the_authority_itself() -> None:
    key, between = new_key(), new_key()
    first = certificate("alice", key, "between", between, signs=False)
    middle = certificate("between", between, "authority", AUTHORITY, signs=True)
    for chain in ((first, middle), (first, middle, CA)):
        assert proven_uris(pem(CA), pem(*chain), signed(key), CONTENT) == [URI]
    assert proven_uris(pem(CA), pem(first), signed(key), CONTENT) is None


def test_a_certificate_of_another_authority_of_the_same_name_does_not_count() -> None:
    key, other = new_key(), new_key()
    false_ca = certificate("authority", other, "authority", other, signs=True)
    first = certificate("alice", key, "authority", other, signs=False)
    for chain in ((first,), (first, false_ca), (first, false_ca, CA)):
        assert proven_uris(pem(CA), pem(*chain), signed(key), CONTENT) is None


def test_a_certificate_that_a_user_signed_does_not_count() -> None:
    key, of_user = new_key(), new_key()
    user = certificate("alice", of_user, "authority", AUTHORITY, signs=False)
    first = certificate("root", key, "alice", of_user, signs=False)
    assert proven_uris(pem(CA), pem(first, user), signed(key), CONTENT) is None


def test_a_chain_with_too_many_certificates_does_not_count() -> None:
    key = new_key()
    first = certificate("alice", key, "authority", AUTHORITY, signs=False)
    assert proven_uris(pem(CA), pem(first, *[CA] * (MAX_CERTIFICATES - 1)), signed(key), CONTENT) == [URI]
    assert proven_uris(pem(CA), pem(first, *[CA] * MAX_CERTIFICATES), signed(key), CONTENT) is None


def test_a_hostile_chain_costs_no_check_with_a_key_of_its_sender() -> None:
    """All certificates have one name, so a search for a path tries each of them with each. It took 2.5 s, in which the
    node did nothing else."""
    slow = slow_key()
    first = certificate("leaf", new_key(), "X", slow, signs=False)
    mesh = [certificate("X", slow, "X", slow, signs=True) for _ in range(3)]
    begun = time.process_time()
    assert proven_uris(pem(CA), pem(first, *mesh), b"", CONTENT) is None
    assert time.process_time() - begun < 0.5
