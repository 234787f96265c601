"""An export and its archive are checked as one; a file that is missing, changed or put elsewhere is refused."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from pathlib import Path

import pytest

from hushmq.broker.contract.policy_message import Window
from hushmq.broker.contract.signature import PrivateKey
from hushmq.calibrator.ledger.archive_file import sealed_text
from hushmq.verify.check_archives import read_files
from hushmq.verify.check_export import check_export
from hushmq.verify.claims import Claim, Verdict
from hushmq.verify.export_file import read_export
from tests.calibrator.ledger.test_archive_releases import KEPT, WINDOWS, moved
from tests.calibrator.site import CALIBRATOR, OPS, STRANGER, STREAM, desk, policy, sqlite
from tests.hushmq.verify.exported import Tree, changed, exported, faults, sealed_again

RELEASES = "archive, files as sealed, none missing"


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> tuple[Tree, Tree, Path]:
    """The export of before, the one of after, and the archive in between."""
    folder = tmp_path_factory.mktemp("site")
    with desk(sqlite(folder)) as here:
        here.adopt(policy(windows={"short": Window(ticks=20, scopes=("cohort", "device"))}))
        for number in range(WINDOWS):
            here.window(number)
            here.cohort.close_due()
        here.cohort.mark_sent(here.cohort.unsent())
        before = exported(here)
    moved(sqlite(folder), folder / "archive")
    with desk(sqlite(folder)) as here:
        return before, exported(here), folder / "archive"


def claims(tree: Tree, archive: Path | None, folder: Path) -> list[Claim]:
    path = folder / "export.json"
    path.write_text(json.dumps(tree))
    files = [] if archive is None else read_files([archive])
    return list(check_export(read_export(path), [OPS.public.raw], [CALIBRATOR.public.raw], archive=files))


def test_with_its_archive_an_export_says_what_it_said_before(
    site: tuple[Tree, Tree, Path], tmp_path: Path
) -> None:
    """Every claim holds, about as many releases; without the archive it is not checked, and so does not pass."""
    before, after, archive = site
    assert len(after["streams"][STREAM]["releases"]) == KEPT * 4
    found = claims(after, archive, tmp_path)
    assert faults(found) == {}
    words = {(one.about, one.claim): one.detail for one in found}
    assert {
        (one.about, one.claim): one.detail for one in claims(before, None, tmp_path)
    }.items() - words.items() <= {(("export", "sealed by the calibrator"), f"made {before['at']}")}
    assert faults(claims(after, None, tmp_path))[RELEASES][0] is Verdict.NOT_CHECKED


def _copied(archive: Path, folder: Path) -> list[Path]:
    folder.mkdir()
    for path in archive.iterdir():
        (folder / path.name).write_bytes(path.read_bytes())
    return sorted(folder.iterdir())


def _rewritten(path: Path, old: bytes, new: bytes) -> None:
    content = gzip.decompress(path.read_bytes())
    assert old in content
    path.write_bytes(gzip.compress(content.replace(old, new, 1)))


@pytest.mark.parametrize(
    ("damage", "words"),
    [
        (lambda paths: paths[1].unlink(), "file 2 is missing, or was changed"),
        (lambda paths: _rewritten(paths[0], b'"devices\\":3', b'"devices\\":4'), "file 1 is missing"),
        (lambda paths: _rewritten(paths[0], b'"number":1', b'"number":2'), "file 1 is missing"),
    ],
)
def test_a_damaged_archive_fails(
    site: tuple[Tree, Tree, Path], damage: Callable[[list[Path]], None], words: str, tmp_path: Path
) -> None:
    """Missing, changed or renumbered."""
    _, after, archive = site
    damage(_copied(archive, tmp_path / "copy"))
    verdict, detail = faults(claims(after, tmp_path / "copy", tmp_path))[RELEASES]
    assert verdict is Verdict.FAILS
    assert words in detail


def _swapped(tree: Tree, key: PrivateKey) -> None:
    """Two files in each other's place, sealed for it."""
    one, two, *_ = tree["archives"]
    one["digest"], two["digest"] = two["digest"], one["digest"]
    one["releases"], two["releases"] = two["releases"], one["releases"]
    for each in (one, two):
        each["seal"] = key.seal(sealed_text("test", each["number"], each["digest"]))


def _dropped(tree: Tree, key: PrivateKey) -> None:
    del tree["archives"][1]


def _resealed(tree: Tree, key: PrivateKey) -> None:
    for each in tree["archives"]:
        each["seal"] = STRANGER.seal(sealed_text("test", each["number"], each["digest"]))


@pytest.mark.parametrize(
    ("lie", "words"),
    [
        (_swapped, "is not the one that followed number 0"),
        (_dropped, "names file 3 where 2 should be"),
        (_resealed, "not one that a trusted key"),
    ],
)
def test_a_calibrator_that_lies_about_its_files_is_found_out(
    site: tuple[Tree, Tree, Path], lie: Callable[[Tree, PrivateKey], None], words: str, tmp_path: Path
) -> None:
    """Reordered, one left out, or sealed by another key; the export itself is sealed for it."""
    _, after, archive = site
    tree = changed(after)
    lie(tree, CALIBRATOR)
    sealed_again(tree)
    found = faults(claims(tree, archive, tmp_path))
    assert found[RELEASES][0] is Verdict.FAILS
    assert words in found[RELEASES][1]


def test_a_release_that_is_in_the_archive_too_is_found_out(
    site: tuple[Tree, Tree, Path], tmp_path: Path
) -> None:
    """Two results of one entry would be noise drawn twice, or a copy that came back."""
    before, after, archive = site
    tree = changed(after)
    tree["streams"][STREAM]["releases"].insert(0, before["streams"][STREAM]["releases"][0])
    sealed_again(tree)
    assert "two releases" in faults(claims(tree, archive, tmp_path))["archive, each release once"][1]


def test_files_that_are_none(tmp_path: Path) -> None:
    """One line that names the file."""
    with pytest.raises(ValueError, match="does not exist"):
        read_files([tmp_path / "nowhere"])
    (tmp_path / "x.jsonl.gz").write_bytes(b"not compressed")
    with pytest.raises(ValueError, match=r"x\.jsonl\.gz is no file of an archive"):
        read_files([tmp_path])
