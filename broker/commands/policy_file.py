"""Reads a policy file: TOML or JSON, checked as strictly as on a device."""

from __future__ import annotations

import json
import math
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from hushmq.broker.contract.messages import MAX_PAYLOAD_BYTES, encode
from hushmq.broker.contract.policy_message import Policy, StreamPolicy
from hushmq.broker.contract.problem import Problem
from hushmq.broker.contract.signature import PublicKey, Signed
from hushmq.broker.forecast.choose_stride import asks_for_stride, choose_stride, with_strides
from hushmq.broker.service.settings_file import first_error, setting_names


def read_policy(path: Path) -> dict[str, Any]:
    """Return the fields of a policy file; raise Problem when it cannot be read."""
    try:
        text = path.read_text(encoding="utf-8")
        tree = json.loads(text) if path.suffix == ".json" else tomllib.loads(text)
    except OSError as error:
        raise Problem(f"{path}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise Problem(f"{path}: not UTF-8 text") from None
    except (ValueError, RecursionError) as error:
        raise Problem(f"{path}: not {'JSON' if path.suffix == '.json' else 'TOML'}: {error}") from None
    if not isinstance(tree, dict):
        raise Problem(f"{path}: a policy is an object with cohort and streams")
    return tree


def check_policy(
    tree: dict[str, Any], path: Path, *, version: Any, in_use: Mapping[str, StreamPolicy] | None = None
) -> Policy:
    """Return the policy with these fields, validated as strictly as on a device; raise Problem if it is invalid.

    A stride that is "auto" or absent is chosen (broker/forecast/choose_stride.py), or that of the stream `in_use`.
    """
    wanted = asks_for_stride(tree)
    if not wanted:
        return _valid(tree, path, version)
    whole = _valid(with_strides(tree, dict.fromkeys(wanted, 1)), path, version)
    strides = {
        name: in_use[name].stride if in_use and name in in_use else choose_stride(whole, name)
        for name in wanted
    }
    return _valid(with_strides(tree, strides), path, version)


def _valid(tree: dict[str, Any], path: Path, version: Any) -> Policy:
    try:
        return Policy.model_validate_json(json.dumps(tree | {"version": version}, allow_nan=False))
    except ValidationError as error:
        raise Problem(f"{path}: {first_error(error, tree, set(setting_names(Policy)))}") from None
    except (TypeError, ValueError) as error:
        where = _unnumbered(tree)
        raise Problem(
            f"{path}: {where}: it must be a finite number" if where else f"{path}: {error}"
        ) from None


def _unnumbered(tree: Any, where: str = "") -> str | None:
    """Return the dotted name of the first number in a file that is none, such as nan or inf."""
    if isinstance(tree, float):
        return None if math.isfinite(tree) else where
    parts = tree.items() if isinstance(tree, dict) else enumerate(tree) if isinstance(tree, list) else ()
    found = (_unnumbered(value, f"{where}.{key}" if where else str(key)) for key, value in parts)
    return next((name for name in found if name is not None), None)


def read_signed(tree: dict[str, Any], path: Path) -> Signed[Policy] | None:
    """Return the signed policy in a file that `hushmq policy sign` wrote; None if the file is a policy itself."""
    if not tree.keys() >= {"message", "key", "signature"}:
        return None
    try:
        return Signed[Policy].model_validate_json(json.dumps(tree, allow_nan=False))
    except (ValidationError, ValueError) as error:
        first = first_error(error) if isinstance(error, ValidationError) else str(error)
        raise Problem(f"{path}: no signed policy: {first}") from None


def payload_of(signed: Signed[Policy], path: Path) -> bytes:
    """Return the message of a signed policy; raise Problem if devices would not read it."""
    payload = encode(signed)
    if len(payload) > MAX_PAYLOAD_BYTES:
        raise Problem(
            f"{path}: the message has {len(payload)} bytes; devices read at most {MAX_PAYLOAD_BYTES}"
        )
    return payload


def ops_keys(calibrator: Path) -> list[PublicKey]:
    """Return the public keys of ops that a calibrator's settings list; raise Problem where there are none."""
    try:
        tree = tomllib.loads(calibrator.read_text(encoding="utf-8"))
        return [PublicKey.parse(key) for key in tree["keys"]["ops_keys"]]
    except OSError as error:
        raise Problem(f"{calibrator}: {error.strerror}") from None
    except (KeyError, TypeError, ValueError):
        raise Problem(f"{calibrator}: keys.ops_keys: no list of public keys") from None
