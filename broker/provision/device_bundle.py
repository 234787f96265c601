"""What a device needs to join a site, in one file that can be carried over: its settings and its credentials.

The file is JSON and as secret as the password in it. Its settings have paths relative to themselves, so that it can be
unpacked anywhere.
"""

from __future__ import annotations

from pathlib import Path
from typing import Literal, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from hushmq.broker.contract.message_base import Level
from hushmq.broker.contract.problem import Problem
from hushmq.broker.provision.broker_process import write_private

SETTINGS = "agent.toml"
FileName = Literal[
    "agent.toml",
    "password",
    "ca.pem",
    "certificate.pem",
    "certificate.key",
    "source-password",
    "source-ca.pem",
]
LARGEST = 1_048_576
"""The largest bundle that is read, in bytes: a valid one has a few thousand."""


class DeviceBundle(BaseModel):
    """The files of one device."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    kind: Literal["hushmq-bundle"] = "hushmq-bundle"
    v: Literal[1] = 1
    device: Level
    cohort: Level
    files: dict[FileName, str] = Field(repr=False)
    """Only files of these names: a bundle cannot write anywhere else."""

    @model_validator(mode="after")
    def _has_settings(self) -> Self:
        if SETTINGS not in self.files:
            raise ValueError(f"it has no {SETTINGS}")
        return self

    def save(self, path: Path) -> None:
        """Write the bundle to a new file that only its owner may read; raise Problem where there is one already."""
        if path.exists():
            raise Problem(f"{path} exists already: remove it, or name another file")
        try:
            path.absolute().parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            write_private(path, self.model_dump_json(indent=1) + "\n")
        except OSError as error:
            raise Problem(f"{path}: {error.strerror}") from None

    def unpack(self, folder: Path, *, replace: bool = False) -> Path:
        """Write the files into a folder, each readable by its owner alone; return the path of the settings.

        Raises Problem where the folder has settings already, unless they may be replaced.
        """
        if (folder / SETTINGS).exists() and not replace:
            raise Problem(f"{folder} holds the settings of a device already: --replace replaces them")
        try:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            # The settings last: a folder that has them is complete.
            for name in sorted(self.files, key=lambda name: name == SETTINGS):
                write_private(folder / name, self.files[name])
        except OSError as error:
            raise Problem(f"{error.filename or folder}: {error.strerror}") from None
        return folder / SETTINGS


def read_bundle(path: Path) -> DeviceBundle:
    """Return the bundle in a file; raise Problem, which repeats nothing of it, when it is none."""
    try:
        with path.open("rb") as file:
            content = file.read(LARGEST + 1)
    except OSError as error:
        raise Problem(f"{path}: {error.strerror}") from None
    try:
        return DeviceBundle.model_validate_json(content if len(content) <= LARGEST else b"")
    except ValidationError:
        raise Problem(f"{path} is no bundle that `hushmq device add` of this version writes") from None
