"""TLS: files go into the server's configuration and into the URLs."""

import asyncio
import datetime
import ipaddress

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from server_kit import in_a_loop, until

from unisono.ens.registry import open_service
from unisono.model.errors import ServerError
from unisono.server import BundledServer, ServerSettings


def name_of(text):
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)])


def write_certificate(folder, name, signed_by=None):
    """A certificate and its key as PEM files; signed by another pair, or by itself as a CA."""
    key = ec.generate_private_key(ec.SECP256R1())
    issuer, signing = signed_by or (name_of(name), key)
    now = datetime.datetime.now(datetime.UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name_of(name))
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(hours=1))
        .not_valid_after(now + datetime.timedelta(hours=1))
        .add_extension(x509.BasicConstraints(ca=signed_by is None, path_length=None), critical=True)
        .add_extension(
            x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]), False
        )
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), False)
        .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(signing.public_key()), False)
        .sign(signing, hashes.SHA256())
    )
    files = folder / f"{name}.pem", folder / f"{name}.key"
    files[0].write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    files[1].write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
    )
    return files, (certificate.subject, key)


@pytest.fixture
def files(tmp_path):
    """Files of a CA, of a server and of a client that it signed, and of a stranger."""
    (ca, _), pair = write_certificate(tmp_path, "ca")
    server, _ = write_certificate(tmp_path, "server", pair)
    client, _ = write_certificate(tmp_path, "client", pair)
    (stranger, _), _ = write_certificate(tmp_path, "stranger")
    return {"ca": ca, "server": server, "client": client, "stranger": stranger}


async def speak(url):
    """Publish and hear something over this URL."""
    service = open_service(url)
    heard = []
    try:
        await service.connect()
        await service.subscribe(frozenset({"orders"}), heard.append)
        service.publish(("orders",), b"in private")
        await until(lambda: heard == [b"in private"])
    finally:
        await service.close()


@in_a_loop
async def test_urls_carry_what_tls_needs(tmp_path, files):
    settings = ServerSettings(
        data=tmp_path / "data", tls_cert=files["server"][0], tls_key=files["server"][1], tls_ca=files["ca"]
    )
    async with BundledServer(settings) as server:
        assert server.url.endswith(f"?tls_ca={files['ca']}")
        await speak(server.url)
        for other in (
            f"nats://{server.address}?tls_ca={files['stranger']}",
            f"nats://{server.address}?tls=true",
        ):
            with pytest.raises(ConnectionError, match=r"no TLS with the NATS server .* check tls_ca="):
                await speak(other)


@in_a_loop
async def test_with_credentials_and_a_client_that_comes_later(tmp_path, files):
    settings = ServerSettings(
        data=tmp_path / "data",
        tls_cert=files["server"][0],
        tls_key=files["server"][1],
        tls_ca=files["ca"],
        auth=True,
    )
    async with BundledServer(settings) as server:
        await speak(server.node_url)
        url = await server.add_client("late")
        assert f"tls_ca={files['ca']}" in url
        service = open_service(url)
        await service.connect()
        await service.close()


@in_a_loop
async def test_clients_must_show_a_certificate(tmp_path, files):
    settings = ServerSettings(
        data=tmp_path / "data",
        tls_cert=files["server"][0],
        tls_key=files["server"][1],
        tls_ca=files["ca"],
        tls_verify=True,
    )
    async with BundledServer(settings) as server:
        await speak(f"{server.url}&tls_cert={files['client'][0]}&tls_key={files['client'][1]}")
        with pytest.raises(ConnectionError):  # which TLS 1.3 tells after the handshake, or by hanging up
            async with asyncio.timeout(20):
                await speak(server.url)


@in_a_loop
async def test_files_that_are_no_certificates(tmp_path, files):
    (tmp_path / "no.pem").write_text("nothing")
    settings = ServerSettings(
        data=tmp_path / "data", tls_cert=tmp_path / "no.pem", tls_key=files["server"][1]
    )
    with pytest.raises(ServerError, match=r"ended with exit code 1: .*certificate"):
        await BundledServer(settings).start()
