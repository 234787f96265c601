"""The Kubernetes example: right by Kubernetes's schemas, consistent in itself, and about files that we really write.

No cluster runs it here.
"""

from __future__ import annotations

import json
import re
import tomllib
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml

from hushmq.__main__ import main
from hushmq.calibrator.fleet_config import FleetConfig
from tests.calibrator.site import OPS
from tests.deploy.command import parse

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "deploy" / "kubernetes"
OBJECTS: list[dict[str, Any]] = [
    one for path in sorted(FOLDER.glob("*.yaml")) for one in yaml.safe_load_all(path.read_text())
]
VERSIONS = ("1.31", kubernetes_validate.latest_version())
NODES = ("nats-0", "nats-1", "nats-2")


def named(kind: str, name: str) -> dict[str, Any]:
    (found,) = (one for one in OBJECTS if one["kind"] == kind and one["metadata"]["name"] == name)
    return found


PODS = {
    "nats": named("StatefulSet", "nats")["spec"]["template"],
    "worker": named("Deployment", "worker")["spec"]["template"],
}
CONTAINERS = [
    pytest.param(pod["spec"], container, id=container["name"])
    for pod in PODS.values()
    for container in (*pod["spec"].get("initContainers", ()), *pod["spec"]["containers"])
]


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("one", OBJECTS, ids=lambda one: f"{one['kind']} {one['metadata']['name']}")
def test_kubernetes_accepts_it(one: dict[str, Any], version: str) -> None:
    """Every field is one of the schema of its kind, and of its type."""
    kubernetes_validate.validate(one, version, strict=True)


def test_the_schemas_refuse_what_is_wrong() -> None:
    """A field that does not exist is found, so that the test above can fail."""
    wrong = named("Deployment", "worker") | {"spec": {"replica": 3}}
    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate(wrong, VERSIONS[0], strict=True)


def test_everything_is_in_the_namespace() -> None:
    """But the namespace itself, which admits only pods without privileges."""
    assert {one["metadata"].get("namespace") for one in OBJECTS if one["kind"] != "Namespace"} == {"hushmq"}
    (label,) = named("Namespace", "hushmq")["metadata"]["labels"].items()
    assert label == ("pod-security.kubernetes.io/enforce", "restricted")


@pytest.mark.parametrize(("pod", "container"), CONTAINERS)
def test_a_container_has_no_privileges(pod: dict[str, Any], container: dict[str, Any]) -> None:
    """As the profile `restricted` asks, with a root file system that cannot be written."""
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert pod["automountServiceAccountToken"] is False
    assert container["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    assert "memory" in container["resources"]["limits"]


@pytest.mark.parametrize(("pod", "container"), CONTAINERS)
def test_a_container_is_an_image_of_ours(pod: dict[str, Any], container: dict[str, Any]) -> None:
    """An image of the Containerfile in this version, run by the user whom it makes, with volumes that there are."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    containerfile = (ROOT / "deploy" / "container" / "Containerfile").read_text()
    image, tag = container["image"].split(":")
    assert tag == project["version"]
    assert f"--tag {image} ." in containerfile
    assert f"--uid {pod['securityContext']['runAsUser']} " in containerfile
    claims = named("StatefulSet", "nats")["spec"]["volumeClaimTemplates"]
    volumes = {one["name"] for one in (*pod["volumes"], *(claim["metadata"] for claim in claims))}
    assert {mount["name"] for mount in container["volumeMounts"]} <= volumes


@pytest.mark.parametrize("one", [one for one in OBJECTS if "selector" in one.get("spec", {})], ids=str)
def test_a_selector_finds_pods(one: dict[str, Any]) -> None:
    """Services, disruption budgets and sets select pods that there are; a service's ports are theirs."""
    selector = one["spec"]["selector"]
    (pod,) = (
        pod for pod in PODS.values() if pod["metadata"]["labels"] == selector.get("matchLabels", selector)
    )
    ports = {each["name"]: each["containerPort"] for each in pod["spec"]["containers"][0]["ports"]}
    for port in one["spec"].get("ports", ()):
        assert ports[port["name"]] == port["port"]


def test_nodes_use_the_generated_configuration(tmp_path: Path) -> None:
    """Each secret has the files that `hushmq broker config nats` writes for its node, mounted where they are named."""
    site, out = str(tmp_path / "site"), tmp_path / "nodes"
    nodes = [word for node in NODES for word in ("--node", f"{node}={node}.nats")]
    assert main(["broker", "init", "--site", site, "--cohort", "a", "--host", "broker.example", *nodes]) == 0
    assert main(["broker", "config", "nats", "--site", site, "--out", str(out), "--path", "/etc/nats"]) == 0
    pod = PODS["nats"]["spec"]
    (container,) = pod["containers"]
    (projected,) = (one["projected"] for one in pod["volumes"] if one["name"] == "node")
    mounts = {one["mountPath"]: one.get("subPathExpr") for one in container["volumeMounts"]}
    for node, source in zip(NODES, projected["sources"], strict=True):
        written = {path.name for path in (out / node).iterdir()}
        assert source["secret"]["name"] == node
        assert {item["key"]: item["path"] for item in source["secret"]["items"]} == {
            name: f"{node}/{name}" for name in written
        }
        assert {path: mounts[path] for path in mounts if mounts[path]} == {
            f"/etc/nats/{name}": f"$(POD_NAME)/{name}" for name in written
        }
        tree = json.loads((out / node / "nats.conf").read_text())
        assert tree["jetstream"]["store_dir"] in mounts
        ports = {one["name"]: one["containerPort"] for one in container["ports"]}
        assert ports == {"mqtts": tree["mqtt"]["port"], "cluster": tree["cluster"]["port"]}
        assert tree["mqtt"]["host"] == f"{node}.{named('StatefulSet', 'nats')['spec']['serviceName']}"


def test_workers_have_right_settings() -> None:
    """The file in the config map is one of a fleet; what it names is mounted; its port is the one that is probed."""
    text = named("ConfigMap", "fleet")["data"]["fleet.toml"]
    text = re.sub(r"ops_keys = .*", f'ops_keys = ["{OPS.public}"]', text)
    config = FleetConfig.model_validate(tomllib.loads(text), context={"folder": Path("/etc/hushmq")})
    pod = PODS["worker"]["spec"]
    (container,) = pod["containers"]
    mounts = {one["mountPath"] for one in container["volumeMounts"]}
    assert parse(container["args"]).config.parent.as_posix() in mounts
    assert config.broker is not None
    for path in (config.broker.password_file, config.signing_key_file("a")):
        assert path is not None
        assert path.parent.as_posix() in mounts
    assert [one["containerPort"] for one in container["ports"]] == [config.metrics.port]
    assert config.metrics.host == "0.0.0.0"  # noqa: S104  # within its pod
    assert config.broker.urls == tuple(f"mqtts://{node}.nats:8883" for node in NODES)
    probes = {
        name: container[f"{name}Probe"]["httpGet"]["path"] for name in ("startup", "readiness", "liveness")
    }
    assert probes == {"startup": "/live", "readiness": "/health", "liveness": "/live"}
