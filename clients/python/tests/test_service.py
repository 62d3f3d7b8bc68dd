from __future__ import annotations

from pathlib import Path

import httpx
import pytest
from real_service import API_KEY, Service

from vicinal import (
    NO_RETRY,
    AsyncVicinal,
    ClosedError,
    CollectionNotFoundError,
    ConnectionFailedError,
    InvalidArgumentError,
    Retry,
    UnauthenticatedError,
    UnsupportedError,
    Vicinal,
)
from vicinal.snapshots import SnapshotFile


def test_a_service_says_how_it_is(client: Vicinal) -> None:
    assert client.health() == "OK"
    assert client.ready().startswith("ready")


def test_metrics_are_text_for_prometheus(http_client: Vicinal) -> None:
    assert "# TYPE vicinal_points gauge" in http_client.metrics()


def test_the_state_of_an_index_and_the_settings_can_be_read(http_client: Vicinal) -> None:
    http_client.collections.put("watched")
    points = http_client.collection("watched")
    points.insert([1, 2], "x")
    stats = points.stats()
    assert (stats["collection"], stats["points"], stats["dimension"]) == ("watched", 1, 2)
    assert points.slow_queries() == []
    settings = {setting["name"]: setting for setting in http_client.settings()}
    assert settings["HNSW_EF"]["value"] == 128
    assert settings["GRPC_ROOT_PASSWORD"]["secret"]
    assert API_KEY not in str(settings)
    http_client.collections.delete("watched")


def test_what_grpc_does_not_offer_is_refused(grpc_client: Vicinal, tmp_path: Path) -> None:
    with pytest.raises(UnsupportedError):
        grpc_client.metrics()
    with pytest.raises(UnsupportedError):
        grpc_client.snapshot(tmp_path / "points.snapshot")


def test_a_snapshot_is_a_whole_file(http_client: Vicinal, tmp_path: Path) -> None:
    http_client.collections.put("whole")
    points = http_client.collection("whole")
    ids = [points.insert([number, 1], "x") for number in range(10)]
    points.delete(ids[0])
    target = tmp_path / "points.snapshot"
    # In a container, a killed download had the same process id.
    with SnapshotFile(target):
        info = points.snapshot(target)
    assert (info.path, info.points, info.bytes) == (target, 9, target.stat().st_size)
    assert info.sequence >= 11
    assert target.read_bytes().startswith(b"VICNSNAP")
    assert list(tmp_path.iterdir()) == [target]
    http_client.collections.delete("whole")
    with pytest.raises(CollectionNotFoundError):
        http_client.collection("no-such-collection").snapshot(tmp_path / "none")
    assert list(tmp_path.iterdir()) == [target]


def test_a_key_is_needed_where_the_service_has_one(tmp_path: Path) -> None:
    with Service(tmp_path, HTTP_API_KEY="secret") as service:
        with Vicinal(service.url) as client, pytest.raises(UnauthenticatedError):
            client.insert([1], "x")
        with Vicinal(service.url, api_key="secret") as client:
            id = client.insert([1], "x")
            assert client.collection("default").get(id).content == "x"


@pytest.mark.parametrize("url", ["http://127.0.0.1:9", "grpc://127.0.0.1:9"])
def test_nothing_listens(url: str) -> None:
    hurried = Retry(tries=2, first_delay_s=0.001)
    with (
        Vicinal(url, retry=hurried) as nobody,
        pytest.raises(ConnectionFailedError, match=r"no .* service answers at .*127\.0\.0\.1:9"),
    ):
        nobody.collections.delete("nothing-was-sent-so-this-is-tried-twice")


@pytest.mark.parametrize(
    "url", ["localhost:3000", "ftp://localhost", "http://", "http://a:port", "grpc://a", "grpc://a:port", ""]
)
def test_an_invalid_address_is_refused(url: str) -> None:
    with pytest.raises(InvalidArgumentError, match="is not an address"):
        Vicinal(url)
    with pytest.raises(InvalidArgumentError, match="is not an address"):
        AsyncVicinal(url)


def test_a_wrong_key_is_refused_over_grpc(service: Service) -> None:
    for key in (None, "wrong"):
        with Vicinal(service.grpc_url, api_key=key) as client:
            assert client.health() == "OK"
            with pytest.raises(UnauthenticatedError):
                client.collections.list()


def test_a_client_of_httpx_can_be_brought_along(service: Service) -> None:
    with httpx.Client(headers={"x-from": "here"}) as http:
        with Vicinal(service.url + "/", headers={"x-more": "there"}, http_client=http) as client:
            assert client.health() == "OK"
        assert not http.is_closed


def test_a_closed_client_says_so(service: Service) -> None:
    client = Vicinal(service.url, api_key=API_KEY, retry=NO_RETRY)
    client.close()
    with pytest.raises(ClosedError):
        client.health()
