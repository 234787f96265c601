"""Checks the files of an archive: each is the one that the calibrator sealed, after the one before it, none missing.

What is right is put beside the releases in the export, and checked as those are.
"""

from __future__ import annotations

import gzip
import json
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from hashlib import blake2b
from pathlib import Path

from hushmq.verify.claims import Claim, judged, not_checked
from hushmq.verify.export_file import Export, Tree, unknown
from hushmq.verify.signed_text import EMPTY_HEAD, sealed_by

ABOUT = "archive"


@dataclass(frozen=True, slots=True)
class ArchiveFile:
    """A file as it is: what its lines say, and the digest that they really have."""

    path: Path
    head: Tree
    releases: list[Tree]
    digest: str


def read_files(paths: Sequence[Path]) -> list[ArchiveFile]:
    """All files in folders and files; ValueError that says which cannot be read."""
    found = []
    for path in paths:
        if not path.exists():
            raise ValueError(f"{path} does not exist")
        for file in sorted(path.glob("*.jsonl.gz")) if path.is_dir() else [path]:
            try:
                found.append(_read(file))
            except (OSError, EOFError, zlib.error, ValueError, KeyError, TypeError) as error:
                raise ValueError(f"{file} is no file of an archive: {error}") from None
    return found


def _read(path: Path) -> ArchiveFile:
    content = gzip.decompress(path.read_bytes())
    lines = content.splitlines(keepends=True)
    head, last = json.loads(lines[0]), lines[-1]
    strange = unknown("archive file", head)
    if strange or head["archive"] != 1:
        raise ValueError(*strange[:1] or ["it is of another format"])
    releases = [json.loads(line) for line in lines[1:-1]]
    return ArchiveFile(path, head, releases, blake2b(content[: -len(last)], digest_size=32).hexdigest())


def check_archives(
    export: Export, files: Sequence[ArchiveFile], calibrator_keys: Sequence[bytes]
) -> Iterator[Claim]:
    """The export's archive is there, whole and in its order."""
    stated: list[Tree] = export.tree.get("archives", [])
    if not stated and not files:
        return
    strange = [what for one in stated for what in unknown("archive", one)]
    if strange:
        yield not_checked(ABOUT, "nothing unknown in it", strange[0])
    total = sum(one["releases"] for one in stated)
    if not files:
        what = f"{total} releases are in {len(stated)} files that were not given: --archive"
        yield not_checked(ABOUT, "files as sealed, none missing", what)
        return
    wrong, before = [], EMPTY_HEAD
    for number, one in enumerate(stated, start=1):
        text = f"archive\n{export.cohort}\n{number}\n{one['digest']}".encode()
        file = _named(files, one)
        if one["number"] != number:
            wrong.append(f"the export names file {one['number']} where {number} should be")
        if not sealed_by(calibrator_keys, text, one["seal"]):
            wrong.append(f"file {number} is not one that a trusted key of the calibrator sealed")
        if file is None:
            wrong.append(f"file {number} is missing, or was changed")
        elif (file.head["cohort"], file.head["number"], file.head["before"], len(file.releases)) != (
            export.cohort,
            number,
            before,
            one["releases"],
        ):
            wrong.append(f"{file.path.name} is not the one that followed number {number - 1}")
        before = one["digest"]
    yield judged(ABOUT, "files as sealed, none missing", wrong, f"{total} releases in {len(stated)} files")
    yield judged(
        ABOUT, "each release once", _twice(with_archives(export, files)), "none of them in two places"
    )


def _named(files: Sequence[ArchiveFile], stated: Tree) -> ArchiveFile | None:
    return next((file for file in files if file.digest == stated["digest"]), None)


def _twice(export: Export) -> list[str]:
    wrong, seen = [], set()
    for name, stream in export.streams.items():
        for one in stream["releases"]:
            key = name, one["entry"], one["scope"]
            if key in seen:
                wrong.append(f"entry {one['entry']} has two releases for {one['scope']}")
            seen.add(key)
    return wrong


def with_archives(export: Export, files: Sequence[ArchiveFile]) -> Export:
    """The export with the releases of the files that it names beside its own, in the order of entries."""
    found: dict[str, list[Tree]] = {name: [] for name in export.streams}
    for one in export.tree.get("archives", []):
        file = _named(files, one)
        for release in file.releases if file is not None else ():
            message = json.loads(release["payload"])
            found[message["stream"]].append(message)  # every stream with an entry is in the export
    streams = {
        name: {**stream, "releases": sorted(found[name] + stream["releases"], key=lambda one: one["entry"])}
        for name, stream in export.streams.items()
    }
    return replace(export, tree={**export.tree, "streams": streams})
