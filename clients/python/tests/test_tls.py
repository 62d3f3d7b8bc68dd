from __future__ import annotations

import asyncio
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from real_service import API_KEY, Service

from vicinal import NO_RETRY, AsyncVicinal, InvalidArgumentError, Tls, Vicinal, VicinalError


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Tls:
    """A certificate for this machine that is its own authority, for the service and for its clients."""
    folder = tmp_path_factory.mktemp("certificate")
    kind = "-x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 -subj /CN=localhost"
    files = f"-addext subjectAltName=DNS:localhost,IP:127.0.0.1 -keyout {folder}/key.pem -out {folder}/crt.pem"
    subprocess.run(["openssl", "req", *kind.split(), *files.split()], check=True, capture_output=True)
    return Tls(ca_file=folder / "crt.pem", cert_file=str(folder / "crt.pem"), key_file=folder / "key.pem")


@pytest.fixture(scope="module")
def urls(certificate: Tls, tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[str]]:
    """The addresses of a service that asks its clients for certificates."""
    certs = tmp_path_factory.mktemp("certs")
    (certs / "server").mkdir()
    for name, file in (("tls.crt", "cert"), ("tls.key", "key"), ("clients.crt", "ca")):
        shutil.copy(str(getattr(certificate, f"{file}_file")), certs / "server" / name)
    with Service(tmp_path_factory.mktemp("data"), CERTS_DIR=str(certs)) as service:
        assert service.url.startswith("https://")
        yield [service.url, service.grpc_url.replace("grpc:", "grpcs:")]


def test_a_client_presents_its_certificate(urls: list[str], certificate: Tls) -> None:
    for url in urls:
        with Vicinal(url, api_key=API_KEY, tls=certificate) as client:
            assert client.count() == 0

        async def count(url: str = url) -> int:
            async with AsyncVicinal(url, api_key=API_KEY, tls=certificate) as client:
                return await client.count()

        assert asyncio.run(count()) == 0


def test_a_client_that_needs_httpx_presents_its_certificate(urls: list[str], certificate: Tls) -> None:
    url = urls[0].replace("https://", "https://somebody:secret@")
    with Vicinal(url, tls=certificate) as client:
        assert client.health() == "OK"

    async def health() -> str:
        async with AsyncVicinal(url, tls=certificate) as client:
            return await client.health()

    assert asyncio.run(health()) == "OK"


def test_a_client_without_a_certificate_is_refused(urls: list[str], certificate: Tls) -> None:
    for url in urls:
        with (
            Vicinal(url, api_key=API_KEY, tls=Tls(ca_file=certificate.ca_file), retry=NO_RETRY) as client,
            pytest.raises(VicinalError),
        ):
            client.count()


def test_a_certificate_needs_its_key() -> None:
    with pytest.raises(InvalidArgumentError, match="need each other"):
        Tls(cert_file=Path("a"))
