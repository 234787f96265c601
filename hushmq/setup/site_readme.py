"""The page that `hushmq init` writes into a new site: what everything is, and what to do with it."""

from __future__ import annotations

from hushmq.broker.provision.site_description import Description

PAGE = """# {name}

A site of hushmq: devices publish noisy states of the cohort `{cohort}` to the broker here, and a calibrator releases
histograms of them. Made by `hushmq init`. Paths in the settings are relative: this folder can be moved.

```sh
hushmq up {name}                                 # broker, calibrator, and the devices below here/; Ctrl-C stops all
hushmq device add {name} NAME --source stdin     # what another machine needs to join, in one file
hushmq agent enroll NAME.bundle                  # there
hushmq device list {name}
hushmq push {name}/policy.toml --site {name}     # after changing the policy
hushmq up {name} --print systemd                 # units, to have it started with the machine
```

| | |
|---|---|
| `policy.toml` | what is published, and within which budgets; it has an effect when it is signed and published |
| `ops/ops.key` | signs policies; nothing else needs it (see below) |
| `calibrator.toml`, `calibrator.key` | the calibrator's settings, and the key that signs noise settings |
| `calibrator/` | its database: noisy states and the ledger. Back it up (docs/calibrator.md says how) |
| `site.toml` | who may connect to the broker, and where: {urls} |
| `passwords/`, `authority/` | the identities' secrets, and the certificate authority of the broker |
| `bundles/`, `here/` | what devices elsewhere need to join; devices that run on this machine |
| `log/` | what the processes of `hushmq up` say |

Everything here is for its owner alone; keep it so.

**Keep `ops/ops.key` off line.** Whoever has it can ask devices for more data, up to the limit in their own settings.
Once the first policy is published, move the folder `ops` to a stick. To change the policy, bring it back for the moment
of `hushmq push`.
"""


def site_readme(name: str, description: Description) -> str:
    """Return the page of a site in the folder `name`."""
    return PAGE.format(name=name, cohort=description.cohort, urls=", ".join(description.urls))
