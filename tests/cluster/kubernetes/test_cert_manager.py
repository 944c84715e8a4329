"""Nodes run with certificates as cert-manager issues them for the chart's `Certificate` objects.

cert-manager itself is not here. The test issues what the objects ask for, with the extensions that a CA issuer of
cert-manager writes.
"""

from __future__ import annotations

import ipaddress
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from ledgermq import AsyncAdmin, AsyncProducer
from tests.cluster.fleet import Fleet
from tests.cluster.kubernetes.chart import Object, render

pytestmark = pytest.mark.real

_USAGES = {"server auth": ExtendedKeyUsageOID.SERVER_AUTH, "client auth": ExtendedKeyUsageOID.CLIENT_AUTH}


class Issuer:
    """Issues certificates for `Certificate` objects, as a CA issuer of cert-manager does."""

    def __init__(self) -> None:
        self._key = ec.generate_private_key(ec.SECP256R1())
        name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "ledgermq-ca")])
        self._certificate = (
            _builder(name, name, self._key)
            .add_extension(_key_usage(signs=True), critical=True)
            .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(self._key.public_key()), critical=False)
            .sign(self._key, hashes.SHA256())
        )

    @property
    def ca(self) -> bytes:
        return self._certificate.public_bytes(serialization.Encoding.PEM)

    def issue(self, spec: Object) -> dict[str, bytes]:
        """Return the content of the secret that the object asks for."""
        assert spec["privateKey"]["algorithm"] == "ECDSA"
        assert "digital signature" in spec["usages"]
        key = ec.generate_private_key(ec.SECP256R1())
        names: list[x509.GeneralName] = [x509.DNSName(name) for name in spec["dnsNames"]]
        names += [x509.IPAddress(ipaddress.ip_address(address)) for address in spec["ipAddresses"]]
        names += [x509.UniformResourceIdentifier(uri) for uri in spec["uris"]]
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, spec["commonName"])])
        own = self._key.public_key()
        certificate = (
            _builder(subject, self._certificate.subject, key)
            .add_extension(_key_usage(signs=False), critical=True)
            .add_extension(x509.ExtendedKeyUsage([_USAGES[each] for each in spec["usages"] if each in _USAGES]), False)
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(own), critical=False)
            .add_extension(x509.SubjectAlternativeName(names), critical=False)
            .sign(self._key, hashes.SHA256())
        )
        return {
            "tls.crt": certificate.public_bytes(serialization.Encoding.PEM),
            "tls.key": key.private_bytes(
                serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
            ),
            "ca.crt": self.ca,
        }


def _builder(subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePrivateKey) -> x509.CertificateBuilder:
    now = datetime.now(UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(minutes=1))
        .not_valid_after(now + timedelta(days=90))
    )


def _key_usage(*, signs: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=True,
        content_commitment=False,
        key_encipherment=signs,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=signs,
        crl_sign=False,
        encipher_only=False,
        decipher_only=False,
    )


async def test_three_nodes_prove_themselves_with_them(tmp_path: Path) -> None:
    objects = render("security.mode=certManager", "cluster=test")
    (volume,) = (
        each
        for each in objects["StatefulSet", "ledgermq"]["spec"]["template"]["spec"]["volumes"]
        if each["name"] == "security"
    )
    issuer, directory = Issuer(), tmp_path / "security"
    directory.mkdir()
    mounted = [source["secret"] for source in volume["projected"]["sources"] if "items" in source["secret"]]
    assert len(mounted) == 3
    for secret in mounted:
        spec = objects["Certificate", secret["name"]]["spec"]
        assert spec["secretName"] == secret["name"]
        content = issuer.issue(spec)
        for item in secret["items"]:
            (directory / item["path"]).write_bytes(content[item["key"]])
            (directory / item["path"]).chmod(0o600)
    fleet = Fleet(tmp_path)
    for node in fleet.nodes:
        files = {"tls_certificate": directory / f"node-{node}.pem", "tls_key": directory / f"node-{node}.key"}
        fleet.override(node, **files, tls_ca=directory / "ca.pem")
    try:
        await fleet.start()
        ca = directory / "ca.pem"
        async with AsyncAdmin(fleet.bootstrap, ca=ca) as admin, AsyncProducer(fleet.bootstrap, ca=ca) as producer:
            await admin.create_topic("orders", 1)
            assert (await producer.send("orders", b"over TLS")).offset == 0
            statuses = await admin.cluster()
            assert [status.reachable for status in statuses] == [True] * 3
    finally:
        await fleet.close()
