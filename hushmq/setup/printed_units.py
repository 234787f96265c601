"""What systemd or a container engine needs to run a site that `hushmq init` made."""

from __future__ import annotations

import getpass

from hushmq.broker.provision.unit_file import unit
from hushmq.setup.household import Household

COMPOSE = """# The site {name} in containers; build the images as deploy/README.md says.
# The secrets have mode 600: HUSHMQ_USER=$(id -u):$(id -g) podman compose up
name: hushmq-{cohort}

x-hushmq: &hushmq
  user: ${{HUSHMQ_USER:?the owner of the site's folder, for example HUSHMQ_USER=1000:1000}}
  restart: always
  read_only: true
  tmpfs: [/tmp]
  cap_drop: [ALL]
  security_opt: ["no-new-privileges:true"]
  ulimits: {{core: 0}}
  stop_grace_period: 15s
  volumes: ["{path}:/site"]

services:
  broker:
    <<: *hushmq
    image: hushmq-broker
    command: [broker, run, --site, /site]
    ports: ["{port}:{port}"]

  calibrator:
    <<: *hushmq
    image: hushmq-calibrator
    command: [calibrator, run, --config, /site/calibrator.toml]
    # It reaches the broker by the loopback address, as calibrator.toml says.
    network_mode: "service:broker"
    depends_on: [broker]
"""


def systemd_units(household: Household, *, user: str | None) -> dict[str, str]:
    """Return the units of a site and of its devices on this machine, by file name."""
    path, who = household.path.absolute(), user or getpass.getuser()
    units = {
        f"hushmq-broker-{household.cohort}.service": unit(
            f"hushmq broker of {household.cohort}",
            ["broker", "run", "--site", str(path)],
            user=who,
            writable=path,
            more="LimitNOFILE=65536",
        ),
        f"hushmq-calibrator-{household.cohort}.service": unit(
            f"hushmq calibrator of {household.cohort}",
            ["calibrator", "run", "--config", str(path / "calibrator.toml")],
            user=who,
            writable=path / "calibrator",
            notifies=True,
            # The first start of a new release may copy and upgrade a large database.
            more="TimeoutStartSec=30min",
        ),
    }
    for name, settings in household.here().items():
        units[f"hushmq-agent-{name}.service"] = unit(
            f"hushmq agent of the device {name}",
            ["agent", "run", "--config", str(settings.absolute())],
            user=who,
            writable=settings.absolute().parent,
            notifies=True,
            more="MemoryMax=128M",
            private_devices=False,
        )
    return units


def compose_file(household: Household) -> str:
    """Return a compose file for the broker and the calibrator of a site."""
    path, port = household.path.absolute(), household.folder.description.port
    return COMPOSE.format(name=path.name, cohort=household.cohort, path=path, port=port)
