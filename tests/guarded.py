"""A real broker that wants a password, over TLS, with a certificate of its own authority."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from ipaddress import ip_address
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from strandline.clients.kafka import Cluster
from strandline.model.secrets import Secret
from strandline.operations.ports import HOST, free_port
from tests.servers import own_kafka


@dataclass(frozen=True)
class Guarded:
    """Where it is: openly, for the test itself, and where it wants a password."""

    open: str
    address: str
    authority: Path

    def cluster(self, password: Secret, **options: object) -> Cluster:
        """How ann speaks to it; options with underscores in place of dots."""
        chosen = {name.replace("_", "."): value for name, value in options.items()}
        return Cluster(self.address, {**self.options, "sasl.password": password, **chosen})

    @property
    def options(self) -> dict[str, str]:
        """All that is no secret."""
        return {
            "security.protocol": "SASL_SSL", "sasl.mechanism": "PLAIN", "sasl.username": "ann",
            "ssl.ca.location": str(self.authority),
        }  # fmt: skip


@contextmanager
def guarded_kafka(folder: Path, password: str) -> Iterator[Guarded]:
    """A broker that lets ann in with this password."""
    authority, identity = certified(folder)
    plain, controller, secured = free_port(), free_port(), free_port()
    login = "org.apache.kafka.common.security.plain.PlainLoginModule required"
    properties = {
        "listeners": f"PLAINTEXT://{HOST}:{plain},CONTROLLER://{HOST}:{controller},GUARDED://{HOST}:{secured}",
        "advertised.listeners": f"PLAINTEXT://{HOST}:{plain},GUARDED://{HOST}:{secured}",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,GUARDED:SASL_SSL",
        "controller.quorum.voters": f"1@{HOST}:{controller}",
        "sasl.enabled.mechanisms": "PLAIN",
        "listener.name.guarded.plain.sasl.jaas.config": f'{login} user_ann="{password}";',
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": identity,
    }
    with own_kafka(properties, port=plain) as broker:
        yield Guarded(broker.address, f"{HOST}:{secured}", authority)


def certified(folder: Path) -> tuple[Path, Path]:
    """The certificate of an authority, and the key and certificate of a server on this machine that it vouches for."""
    own, of_server = ec.generate_private_key(ec.SECP256R1()), ec.generate_private_key(ec.SECP256R1())
    issuer = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "an authority for tests")])
    authority = _signed(issuer, issuer, own, own, x509.BasicConstraints(ca=True, path_length=0))
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "a broker for tests")])
    server = _signed(subject, issuer, of_server, own, x509.SubjectAlternativeName([x509.IPAddress(ip_address(HOST))]))
    key = of_server.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    (folder / "authority.pem").write_bytes(_pem(authority))
    (folder / "server.pem").write_bytes(key + _pem(server) + _pem(authority))
    return folder / "authority.pem", folder / "server.pem"


def _signed(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePrivateKey, by: ec.EllipticCurvePrivateKey,
    extension: x509.ExtensionType,
) -> x509.Certificate:  # fmt: skip
    now = datetime.now(timezone.utc)
    builder = x509.CertificateBuilder(issuer, subject, key.public_key(), x509.random_serial_number())
    builder = builder.not_valid_before(now - timedelta(days=1)).not_valid_after(now + timedelta(days=7))
    return builder.add_extension(extension, critical=isinstance(extension, x509.BasicConstraints)).sign(
        by, hashes.SHA256()
    )


def _pem(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(serialization.Encoding.PEM)
