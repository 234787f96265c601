"""Migrations of the calibrator's database: one numbered file in versions/ for every change of its tables.

How to change a table:

1. Change calibrator/store/tables.py. tests/calibrator/store/test_migrate.py now fails: the tables differ from what
   the revisions make.
2. Add `versions/NNNN_what_it_does.py`, NNNN the next number in four digits, with `revision = "NNNN"`,
   `down_revision` the number before, a docstring whose first line says in words what changes (users read it in
   `hushmq calibrator upgrade`), and `upgrade()`. The failing test prints a draft of it. There is no `downgrade`:
   whoever wants to go back restores the backup.
3. Convert the data in the same function, with tables written out there (`sa.table("statistic", sa.column(…), …)`).
   Import nothing of hushmq: a revision does the same for ever, whatever the code becomes. A constant that it needs
   is copied into it.
4. Test the conversion in tests/calibrator/store: `stored.py` there fills a database, SQLite or PostgreSQL, with that of
   release 0.1, and opening it upgrades it.

What a revision may rely on:

- All revisions that are due run in one transaction, which holds the write lock: after a crash the database is as it
  was, or upgraded. So no revision commits, and none uses `op.execute("VACUUM")`, `CREATE INDEX CONCURRENTLY` or
  another statement that a transaction forbids.
- On SQLite foreign keys are off meanwhile and checked before the commit: a table to which others refer can be
  rewritten with `op.batch_alter_table` (SQLite alters little in place).
- Revision numbers rise by one, without branches (a test sees to it), so a database says with its number alone
  whether it is older or newer than the program.
- Release 0.1 knows no revisions. It refuses a database only where one of its tables lacks a column, so from
  revision 0002 on one of them always has to (a test sees to it).
- A revision that is released is never edited; the next one mends it.

When a release is made, a database of it is stored with the tests before its revisions become the past
(tests/calibrator/store/stored/README.md), and so is an outbox (tests/agent/storage/stored/README.md).
"""
