"""`hushmq keys`: new and show."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from hushmq.__main__ import main
from hushmq.broker.contract.signature import PrivateKey, PublicKey


def test_new_makes_a_private_file_and_prints_the_public_key(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """`new` and `show` print the same line with the file's public key; the private key is never printed."""
    file = tmp_path / "ops.key"
    assert main(["keys", "new", str(file)]) == 0
    line = capsys.readouterr().out
    public, key_id, name = line.split()
    key = PrivateKey.load(file).public
    assert (PublicKey.parse(public).id, key_id, name) == (key.id, key.id, str(file))
    assert main(["keys", "show", str(file)]) == 0
    assert capsys.readouterr().out == line
    assert file.read_text().strip() not in line


def test_show_as_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """--json prints one object per line, for several files."""
    files = [tmp_path / "ops.key", tmp_path / "calibrator.key"]
    for file in files:
        assert main(["keys", "new", "--json", str(file)]) == 0
    made = capsys.readouterr().out
    assert main(["keys", "show", "--json", *map(str, files)]) == 0
    assert capsys.readouterr().out == made
    assert [json.loads(line)["file"] for line in made.splitlines()] == [str(file) for file in files]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["new", "{}/ops.key"], "never overwritten"),
        (["show", "{}/none.key"], "No such file"),
        (["show"], "required"),
        ([], "required"),
        (["melt", "x"], "melt"),
    ],
)
def test_bad_input_is_one_line_and_exit_code_2(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], message: str
) -> None:
    """An error is one line, without traceback, and standard output stays empty."""
    PrivateKey.generate().save(tmp_path / "ops.key")
    assert main(["keys", *(argument.format(tmp_path) for argument in arguments)]) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert message in said.err
    assert said.err.count("\n") == 1
