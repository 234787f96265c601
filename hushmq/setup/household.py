"""A whole site in one folder, as a household has it: broker, calibrator, policy, keys, and devices on this machine.

    README.md                   what everything is, and what to do with it
    site.toml, passwords/, authority/
                                the broker's site (broker/provision/site_folder.py)
    calibrator.toml, calibrator.key, calibrator/
                                the calibrator: settings, signing key, database
    policy.toml                 what is published, before ops have signed it
    ops/ops.key                 signs policies; nothing but `push` and `policy sign` needs it
    bundles/                    what devices need to join, one file each
    here/<device>/              devices that run on this machine
    log/                        what the processes of `hushmq up` say

Paths in settings are relative: the folder can be moved.
"""

from __future__ import annotations

import re
import socket
from dataclasses import dataclass
from pathlib import Path

from hushmq.broker.commands.policy_file import check_policy, ops_keys, read_policy
from hushmq.broker.contract.policy_message import Policy
from hushmq.broker.contract.problem import Problem
from hushmq.broker.contract.signature import PrivateKey, PublicKey
from hushmq.broker.forecast.policy_text import policy_text
from hushmq.broker.forecast.stream_plan import plan_policy
from hushmq.broker.provision import site_description as descriptions
from hushmq.broker.provision.broker_process import write_private
from hushmq.broker.provision.device_bundle import SETTINGS, DeviceBundle
from hushmq.broker.provision.site_folder import LOCAL, SiteFolder, broker_section
from hushmq.setup.agent_settings import SourceChoice, agent_settings
from hushmq.setup.site_readme import site_readme

OPS, CALIBRATOR = "ops", "calibrator"
GRACE_S = 20.0
"""How long a household's window waits for late batches: twice the beat of its devices."""


@dataclass(frozen=True, slots=True)
class Household:
    """The folder of an existing site."""

    path: Path
    folder: SiteFolder

    @classmethod
    def open(cls, path: Path) -> Household:
        """Open a site that `hushmq init` made; raise Problem when it is none."""
        if not (path / "site.toml").exists():
            raise Problem(f"{path} holds no site: make one with hushmq init {path}")
        if not (path / "calibrator.toml").exists():
            raise Problem(f"{path} holds a broker's site only: make a whole one with hushmq init")
        return cls(path, SiteFolder(path))

    @classmethod
    def create(cls, path: Path, policy: Policy, *, host: str, port: int, listen: str) -> Household:
        """Make a site with everything that it needs; raise Problem when the folder has something of a site."""
        for name in ("site.toml", "calibrator.toml", "policy.toml", "calibrator.key", "ops"):
            if (path / name).exists():
                raise Problem(f"{path} holds {name} already: choose another folder")
        hosts = list(dict.fromkeys((*hosts_of(host), "localhost", LOCAL)))
        tree = {"cohort": policy.cohort, "hosts": hosts, "listen": listen, "port": port}
        made = cls(path, SiteFolder.create(path, descriptions.parse(tree, "hushmq init")))
        (path / "ops").mkdir(mode=0o700)
        ops, calibrator = PrivateKey.generate(), PrivateKey.generate()
        ops.save(made.ops_key)
        calibrator.save(path / "calibrator.key")
        write_private(path / "calibrator.toml", made._calibrator_settings(ops.public))
        plans = plan_policy(policy, dict.fromkeys(policy.streams, 1))
        made.policy_file.write_text(policy_text(policy, plans))
        (path / "README.md").write_text(site_readme(path.name, made.folder.description))
        return made

    @property
    def policy_file(self) -> Path:
        return self.path / "policy.toml"

    @property
    def ops_key(self) -> Path:
        return self.path / "ops" / "ops.key"

    @property
    def calibrator_file(self) -> Path:
        return self.path / "calibrator.toml"

    @property
    def cohort(self) -> str:
        return self.folder.description.cohort

    def policy(self) -> Policy:
        """Return the policy as it stands in policy.toml, with version 1 where it has none."""
        tree = read_policy(self.policy_file)
        return check_policy(tree, self.policy_file, version=tree.get("version", 1))

    @property
    def device_urls(self) -> list[str]:
        """The broker's addresses for devices elsewhere: by name first, then by number."""
        description = self.folder.description
        away = [host for host in description.hosts if host not in {"localhost", LOCAL}]
        scheme = "mqtt" if description.tls == "none" else "mqtts"
        return [f"{scheme}://{host}:{description.port}" for host in away] or [self.folder.local_url]

    def bundle(
        self, device: str, sources: dict[str, SourceChoice], policy: Policy, *, here: bool = False
    ) -> DeviceBundle:
        """Return what an existing device needs to join, here or elsewhere."""
        files = self.folder.credentials(device)
        settings = agent_settings(
            device=device,
            policy=policy,
            urls=[self.folder.local_url] if here else self.device_urls,
            files=files,
            # Those that the calibrator follows, since ops.key itself may be off line.
            ops_keys=list(map(str, ops_keys(self.calibrator_file))),
            calibrator_keys=[str(PrivateKey.load(self.path / "calibrator.key").public)],
            sources=sources,
        )
        for source in sources.values():
            files |= source.login.files
        return DeviceBundle.model_validate(
            {"device": device, "cohort": self.cohort, "files": {SETTINGS: settings, **files}}
        )

    def revoke(self, device: str) -> None:
        """Shut a device out: its identity and its bundle go; if it runs here, it is stopped. Its data stays."""
        self.folder.revoke(device)
        here = self.here().get(device)
        if here is not None:
            here.rename(here.with_suffix(".revoked"))
        (self.path / "bundles" / f"{device}.bundle").unlink(missing_ok=True)

    def here(self) -> dict[str, Path]:
        """Return the settings of the devices that run on this machine, by name."""
        found = sorted((self.path / "here").glob(f"*/{SETTINGS}"))
        return {file.parent.name: file for file in found}

    def _calibrator_settings(self, ops: PublicKey) -> str:
        files = {"password": f"passwords/{CALIBRATOR}", "ca.pem": "authority/ca.pem"}
        return "\n".join(
            [
                "# Settings of the calibrator (docs/calibrator-configuration.md). Paths are relative to this file.",
                f"cohort = {descriptions.toml_value(self.cohort)}",
                'database = "sqlite:///calibrator/ledger.db"',
                f"grace_s = {GRACE_S}",
                "",
                broker_section([self.folder.local_url], CALIBRATOR, files),
                "[keys]",
                f"ops_keys = {descriptions.toml_value([str(ops)])}",
                'signing_key_file = "calibrator.key"',
                "",
            ]
        )


def hosts_of(host: str | None) -> list[str]:
    """Return the names by which devices reach this machine: the given one, or its name and its address."""
    if host:
        return [host]
    name = re.sub(r"[^A-Za-z0-9.-]", "-", socket.gethostname())
    return [each for each in (name, _address()) if each]


def _address() -> str | None:
    """Return the address of this machine towards others; nothing is sent to find it."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect(("192.0.2.1", 9))  # an address reserved for documentation
        except OSError:
            return None
        return str(probe.getsockname()[0])
