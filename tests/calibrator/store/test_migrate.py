"""The revisions make the tables that the code uses, once, in one transaction; what is not ours is left alone."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest
from alembic.autogenerate import produce_migrations, render_python_code
from alembic.operations.ops import UpgradeOps
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, create_engine, text

from hushmq.__main__ import main
from hushmq.broker.contract.problem import Problem
from hushmq.calibrator.store.open_database import open_store, open_to_read
from hushmq.calibrator.store.revisions import OURS
from hushmq.calibrator.store.tables import metadata
from tests.calibrator.conftest import Databases
from tests.calibrator.site import sqlite
from tests.calibrator.store import stored
from tests.calibrator.store.later import schema


def missing_from_revisions(db: Connection) -> str:
    """A draft of the revision that would make the database's tables those of the code; empty if they are."""
    context = MigrationContext.configure(db, opts={"compare_type": True, "compare_server_default": True})
    found = produce_migrations(context, metadata).upgrade_ops
    assert isinstance(found, UpgradeOps)
    return "" if found.is_empty() else render_python_code(found, render_as_batch=True)


def test_the_revisions_make_the_tables(databases: Databases) -> None:
    """Whoever changes calibrator/store/tables.py adds a revision (calibrator/store/migrations/__init__.py)."""
    engine = open_store(databases.fresh())
    with engine.connect() as db:
        draft = missing_from_revisions(db)
    engine.dispose()
    assert not draft, f"the tables changed without a revision; a draft of its upgrade():\n{draft}"


def test_a_missing_revision_is_noticed(tmp_path: Path) -> None:
    """The test above can fail: a column, a type, an index and a default that no revision makes are seen."""
    for change in (
        "ALTER TABLE learning DROP COLUMN undetectable",
        "DROP INDEX ledger_of_stream",
        "DROP TABLE quarantine; CREATE TABLE quarantine (device VARCHAR(64) PRIMARY KEY NOT NULL, "
        "reason VARCHAR(32) NOT NULL, strikes BIGINT NOT NULL, until TEXT NOT NULL)",
        "DROP TABLE pending",
    ):
        (tmp_path / "ledger.db").unlink(missing_ok=True)
        engine = open_store(sqlite(tmp_path))
        with engine.begin() as db:
            for statement in change.split(";"):
                db.execute(text(statement))
            assert missing_from_revisions(db), change
        engine.dispose()


def test_the_revisions_and_the_tables_give_one_schema(databases: Databases) -> None:
    """As the database itself describes it: columns with types and defaults, keys, indices, references."""
    migrated, created = databases.fresh(), databases.fresh()
    open_store(migrated).dispose()
    engine = create_engine(created)
    metadata.create_all(engine)
    engine.dispose()
    assert schema(migrated) == schema(created)


def test_revisions_are_numbered_without_gaps_or_branches() -> None:
    """A database tells by its number alone whether it is older or newer; each revision says what it does."""
    script = ScriptDirectory(str(OURS.folder))
    chain = [one.revision for one in reversed(list(script.walk_revisions()))]
    assert chain == [f"{number:04}" for number in range(1, len(chain) + 1)]
    assert OURS.numbers == tuple(chain)
    assert len(script.get_heads()) == 1
    assert all(one.summary for one in OURS.after("0000"))


def test_a_revision_imports_nothing_of_ours() -> None:
    """It does the same for ever, whatever the code becomes."""
    for path in (OURS.folder / "versions").glob("[0-9]*.py"):
        assert "hushmq" not in [line.split()[1].split(".")[0] for line in imports(path)], path


def imports(path: Path) -> list[str]:
    return [
        line.strip()
        for line in path.read_text().splitlines()
        if line.strip().startswith(("import ", "from "))
    ]


def test_a_newer_database_is_refused_and_left_alone(databases: Databases) -> None:
    """Neither a calibrator nor `hushmq ledger` opens it; the message says which version wrote it."""
    url = databases.fresh()
    engine = open_store(url)
    with engine.begin() as db:
        db.execute(text("UPDATE alembic_version SET version_num = '9999'"))
    engine.dispose()
    before = schema(url)
    for opened in (open_store, open_to_read):
        with pytest.raises(
            Problem, match=rf"^database: .* newer version .*revision 9999.* up to {OURS.newest}: install that"
        ):
            opened(url)
    assert schema(url) == before


def test_the_daemon_and_the_commands_refuse_a_newer_one(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """With exit code 2 and one line."""
    engine = open_store(sqlite(tmp_path))
    with engine.begin() as db:
        db.execute(text("UPDATE alembic_version SET version_num = '9999'"))
    engine.dispose()
    config = str(stored.write_config(tmp_path, sqlite(tmp_path)))
    for command in ("calibrator run", "calibrator upgrade", "ledger show", "ledger verify", "ledger export"):
        assert main([*command.split(), "--config", config]) == 2
        (line,) = capsys.readouterr().err.splitlines()
        assert "was written by a newer version of hushmq (revision 9999)" in line


def test_release_0_1_refuses_a_later_database() -> None:
    """It knows no revisions, and refuses a database where one of its tables lacks a column: so one has to."""
    first, newest = OURS.columns_at(OURS.first), OURS.columns_at(OURS.newest)
    lacking = {table for table in first.keys() & newest.keys() if first[table] - newest[table]}
    assert lacking or OURS.newest == OURS.first


@pytest.mark.parametrize("rows", [0, 2])
def test_a_database_without_one_revision_is_refused(databases: Databases, rows: int) -> None:
    """No row or two: nobody knows what it is."""
    url = databases.fresh()
    engine = open_store(url)
    with engine.begin() as db:
        db.execute(text("DELETE FROM alembic_version"))
        for number in range(rows):
            db.execute(text("INSERT INTO alembic_version VALUES (:number)"), {"number": number})
    engine.dispose()
    with pytest.raises(Problem, match=rf"^database: .* damaged: .* has {rows} rows"):
        open_store(url)


@pytest.mark.parametrize("alembic", [False, True])
def test_the_database_of_another_program_is_refused_and_left_alone(
    databases: Databases, *, alembic: bool
) -> None:
    """A URL with a slip in it does not put tables into somebody else's database, who may use Alembic as well."""
    url = databases.fresh()
    engine = create_engine(url)
    with engine.begin() as db:
        db.execute(text("CREATE TABLE recorder (id INTEGER)"))
        if alembic:
            db.execute(text("CREATE TABLE alembic_version (version_num VARCHAR(32) PRIMARY KEY)"))
            db.execute(text("INSERT INTO alembic_version VALUES ('8c4e7a')"))
    engine.dispose()
    for opened in (open_store, open_to_read):
        with pytest.raises(
            Problem, match=r"^database: .* is no database of hushmq: it holds recorder; give "
        ):
            opened(url)
    assert list(schema(url)["get_multi_columns"]) == ["recorder"]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ("DROP TABLE pending", "no table pending; restore"),
        ("ALTER TABLE closed DROP COLUMN through", "table closed has no through; restore"),
    ],
)
@pytest.mark.parametrize("stamped", [True, False])
def test_half_a_database_is_refused_and_left_alone(
    databases: Databases, change: str, words: str, *, stamped: bool
) -> None:
    """Neither a calibrator nor `hushmq ledger` opens one that lacks a table or a column; the message names it.

    One of release 0.1 has no revision in it.
    """
    url = databases.fresh()
    if stamped:
        open_store(url).dispose()
    else:
        stored.fill(url)
    engine = create_engine(url)
    with engine.begin() as db:
        db.execute(text(change))
    engine.dispose()
    before = schema(url)
    for opened in (open_store, open_to_read):
        with pytest.raises(Problem, match=rf"^database: .* damaged, .*: {words}"):
            opened(url)
    assert schema(url) == before


def test_what_is_no_database_is_refused(tmp_path: Path) -> None:
    """Any other file: in words, and its bytes stay."""
    (tmp_path / "ledger.db").write_bytes(b"not a database at all\n" * 100)
    for opened in (open_store, open_to_read):
        with pytest.raises(Problem, match=r"^database: .* file is not a database"):
            opened(sqlite(tmp_path))
    assert (tmp_path / "ledger.db").read_bytes().startswith(b"not a database")


def test_an_empty_database_is_not_read(tmp_path: Path) -> None:
    """Whoever only reads creates no tables."""
    sqlite3.connect(tmp_path / "ledger.db").close()
    (tmp_path / "ledger.db").touch()
    with pytest.raises(Problem, match=r"^database: .* holds no ledger: it is empty"):
        open_to_read(sqlite(tmp_path))
    assert (tmp_path / "ledger.db").stat().st_size == 0
