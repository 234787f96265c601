"""The disclosure of a site that runs here: again every hour, and tried again where it did not come to be."""

from __future__ import annotations

import json
from pathlib import Path

from hushmq.broker.contract.disclosure_seal import disclosed_bytes
from hushmq.setup.renewed_disclosure import AGAIN_S, EVERY_S, RenewedDisclosure
from tests.calibrator.site import CALIBRATOR, OPS, desk


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def test_it_is_written_when_there_is_something_and_again_every_hour(tmp_path: Path) -> None:
    """First there is no policy: it is tried again. Then it is sealed by the calibrator, and an hour later replaced."""
    CALIBRATOR.save(tmp_path / "calibrator.key")
    config, out, clock = tmp_path / "calibrator.toml", tmp_path / "disclosure.json", Clock()
    config.write_text(
        f'cohort = "test"\ndatabase = "sqlite:///{tmp_path}/ledger.db"\n[broker]\nurls = ["mqtt://127.0.0.1:1"]\n'
        f'[keys]\nops_keys = ["{OPS.public}"]\nsigning_key_file = "{tmp_path}/calibrator.key"\n'
    )
    renewed = RenewedDisclosure(config, out, tmp_path / "log", clock)

    def run() -> None:
        """One run of the command, from its start to its end."""
        renewed.turn()
        assert renewed._process is not None
        renewed._process.wait(120)
        renewed.turn()
        assert renewed._process is None

    renewed.turn()
    assert renewed._process is None
    with desk(f"sqlite:///{tmp_path}/ledger.db") as here:
        clock.now += AGAIN_S
        run()
        assert not out.exists()
        assert "nothing to disclose" in (tmp_path / "log").read_text()
        here.adopt()
    clock.now += AGAIN_S
    run()
    assert _sealed(out)
    clock.now += EVERY_S - 1
    renewed.turn()
    assert renewed._process is None
    clock.now += 1
    renewed.turn()
    assert renewed._process is not None
    renewed.stop()
    assert _sealed(out)


def _sealed(path: Path) -> bool:
    tree = json.loads(path.read_text())
    seal = tree.pop("seal")
    return CALIBRATOR.public.sealed(disclosed_bytes(tree), seal)
