"""The disclosure: sealed, complete, and without what only operators may know."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from hushmq.__main__ import main
from hushmq.broker.contract.disclosure_seal import disclosed_bytes
from hushmq.calibrator.ledger.disclosure import disclose
from tests.calibrator.site import CALIBRATOR, OPS, STREAM, desk, sqlite


def test_a_disclosure_is_sealed_and_says_what_is_promised(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Every question has an answer, budgets are the policy's, and one changed letter breaks the seal."""
    config = tmp_path / "calibrator.toml"
    CALIBRATOR.save(tmp_path / "signing.key")
    config.write_text(
        f'cohort = "test"\ndatabase = "{sqlite(tmp_path)}"\n[broker]\nurls = ["mqtt://127.0.0.1:1"]\n'
        f'[keys]\nops_keys = ["{OPS.public}"]\nsigning_key_file = "{tmp_path}/signing.key"\n'
    )
    with desk(sqlite(tmp_path)) as here:
        assert main(["ledger", "disclose", "--config", str(config)]) == 2
        assert "no policy has been followed yet" in capsys.readouterr().err
        here.adopt()
        here.window(0)
        here.cohort.close_due()
    assert main(["ledger", "disclose", "--config", str(config)]) == 0
    found = json.loads(capsys.readouterr().out)
    seal = found.pop("seal")
    assert CALIBRATOR.public.sealed(disclosed_bytes(found), seal)
    assert not CALIBRATOR.public.sealed(disclosed_bytes({**found, "cohort": "tesT"}), seal)
    assert not OPS.public.sealed(disclosed_bytes(found), seal)
    stream = found["streams"][STREAM]
    assert stream["epsilon"] == {"operator": 4.0, "public": 1.0}
    assert 0 < stream["public_loss"] <= 1.0
    assert stream["broken_promises"] == []
    assert all(one["question"].endswith("?") and one["answer"] for one in found["nist_sp_800_226"])
    assert found["registry"]["privacy_loss"]["parameters"][STREAM]["epsilon_public"] == 1.0
    assert main(["ledger", "disclose", "--database", sqlite(tmp_path)]) == 2


def test_what_arrived_does_not_change_it(tmp_path: Path) -> None:
    """Batches that no release counts yet, of new devices too, leave every byte but the time as it was."""
    with desk(sqlite(tmp_path)) as here:
        here.adopt()
        here.window(0)
        here.cohort.close_due()
        with here.engine.connect() as db:
            before = disclose(db, cohort="test", key=CALIBRATOR)
        here.window(1, devices=9)
        with here.engine.connect() as db:
            after = disclose(db, cohort="test", key=CALIBRATOR)
    for one in (before, after):
        del one["at"], one["seal"]
    assert before == after
