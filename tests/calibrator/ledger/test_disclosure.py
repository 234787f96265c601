"""The disclosure: sealed, complete, and without what only operators may know."""

from __future__ import annotations

import json
from datetime import date
from pathlib import Path
from typing import Any

import pytest

from hushmq.__main__ import main
from hushmq.broker.contract.disclosure_seal import disclosed_bytes
from hushmq.calibrator.ledger.disclosure import PARTS, disclose
from tests.calibrator.site import CALIBRATOR, OPS, STREAM, desk, sqlite

TEXT = str
REGISTRY: dict[str, dict[str, type | set[str]]] = {
    "basic": {
        "name": TEXT,
        "data_curators": list,
        "intended_use": TEXT,
        "data_product_type": {
            *("Summary statistics", "Machine learning model", "Dataset", "Synthetic data"),
            *("Interactive API", "SQL queries"),
        },
        "data_product_region": TEXT,
        "description": TEXT,
        "publication_date": TEXT,
        "data_product_sector": {"Technology", "Healthcare", "Education", "Government", "Energy", "Finance"},
    },
    "dp_variant": {
        "variant_name": {"Pure DP", "Approximate DP", "Zero-concentrated DP", "Renyi DP", "Custom"},
        "data_domain": TEXT,
        "unprotected_quantities": TEXT,
    },
    "privacy_loss": {
        "privacy_unit": TEXT,
        "privacy_unit_details": TEXT,
        "privacy_parameters": dict,
        "privacy_parameters_details": TEXT,
    },
    "deployment_model": {
        "model_name": {"Local", "Central", "Shuffle", "Federated", "Varies"},
        "model_name_details": TEXT,
        "actors": TEXT,
        "release_type": {"One release", "Many releases"},
        "release_type_details": TEXT,
        "data_source_type": {"Static", "Dynamic"},
        "data_source_type_details": TEXT,
        "access_type": {"Interactive", "Non-interactive"},
        "access_type_details": TEXT,
    },
    "accounting": {"post_processing": TEXT, "composition": TEXT},
    "implementation": {
        "preprocessing_and_hyperparameter_tuning": TEXT,
        "mechanisms": TEXT,
        "justification": TEXT,
    },
    "administrative": {"notes": TEXT, "registry_authors": list},
}
"""The registry's fields but `sources`, their types and values, from its public schema of July 2026."""


def assert_of_the_registry(record: dict[str, Any]) -> None:
    """Every field that the registry has for this tier, none beside, of the right type, and the first release's date."""
    assert set(record) == {"url_slug", "status", "tier", "deployment"}
    assert (record["status"], record["tier"]) == ("Draft", 3)
    assert set(record["deployment"]) == set(REGISTRY)
    for part, fields in REGISTRY.items():
        found = record["deployment"][part]
        assert set(found) == set(fields), part
        for name, kind in fields.items():
            value = found[name]
            assert value
            assert value in kind if isinstance(kind, set) else isinstance(value, kind), name
    assert set(record["deployment"]["privacy_loss"]["privacy_parameters"]) <= {"epsilon", "delta", "rho"}
    date.fromisoformat(record["deployment"]["basic"]["publication_date"])


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
    assert {one["part"] for one in found["nist_sp_800_226"]} == set(PARTS)
    assert found["registry"][STREAM]["record"]["deployment"]["privacy_loss"]["privacy_parameters"] == {
        "epsilon": 1.0,
        "delta": 0,
    }
    assert found["registry"][STREAM]["missing"] == [
        "deployment.basic.data_curators",
        "deployment.basic.intended_use",
        "deployment.basic.data_product_region",
        "deployment.administrative.registry_authors",
    ]
    more = (
        "--curator",
        "A city",
        "--use",
        "counting",
        "--region",
        "EU",
        "--sector",
        "Energy",
        "--author",
        "Ann",
    )
    assert main(["ledger", "disclose", "--config", str(config), *more]) == 0
    record = json.loads(capsys.readouterr().out)["registry"][STREAM]
    assert record["missing"] == []
    assert_of_the_registry(record["record"])
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
