#!/bin/sh
# What hushmq is installed with: `supply-chain.sh sbom` lists it, `supply-chain.sh audit` looks for known vulnerabilities.
# Of the agent, as a device gets it, and of the site: broker, calibrator and console. `make sbom` and `make audit` call it.
#
# sbom:  build/sbom/agent.cdx.json and site.cdx.json (CycloneDX, checked against its schema)
# audit: exit code 0: none known; 1: some are, and are listed; 3: not known, the advisory service did not answer for all
set -eu
cd "$(dirname "$0")/.."
: "${PYTHON:=python3}"
trap 'rm -rf build/supply-chain' EXIT
rm -rf build/supply-chain
mkdir -p build/supply-chain
"$PYTHON" -m venv build/supply-chain/tools
tools=build/supply-chain/tools/bin
pip() { "$tools/python" -m pip --disable-pip-version-check --quiet "$@"; }

# An environment without pip, so that it holds hushmq and what it needs, and nothing else. The extras are those of the
# Debian packages.
environment() {
  case $1 in agent) extras=serial ;; site) extras=demo,postgres,serial ;; esac
  echo "installing hushmq[$extras] to look at it" >&2
  "$PYTHON" -m venv --without-pip "build/supply-chain/$1"
  pip --python "build/supply-chain/$1" install --constraint constraints.txt ".[$extras]"
}

case ${1-} in
sbom)
  pip install cyclonedx-bom
  mkdir -p build/sbom
  for name in agent site; do
    environment $name
    "$tools/cyclonedx-py" environment --pyproject pyproject.toml --mc-type application --output-reproducible --validate \
      --output-file build/sbom/$name.cdx.json build/supply-chain/$name
    echo "build/sbom/$name.cdx.json"
  done
  ;;
audit)
  pip install pip-audit
  for name in agent site; do
    environment $name
    pip --python build/supply-chain/$name freeze --exclude hushmq >>build/supply-chain/all.txt
  done
  sort -u build/supply-chain/all.txt >build/supply-chain/requirements.txt
  # Strict: a package of which the service knows nothing is otherwise passed over, with exit code 0. A report is
  # written only when all were looked up.
  if "$tools/pip-audit" --strict --disable-pip --no-deps --progress-spinner off --format json \
    --output build/supply-chain/report.json --requirement build/supply-chain/requirements.txt \
    2>build/supply-chain/errors; then
    echo "audit: no known vulnerability in $(wc -l <build/supply-chain/requirements.txt) packages"
  elif [ -s build/supply-chain/report.json ]; then
    "$tools/python" -c '
import json, sys
for package in json.load(open(sys.argv[1]))["dependencies"]:
    for found in package.get("vulns", ()):
        fixed = ", ".join(found["fix_versions"]) or "no version yet"
        print(package["name"], package["version"], found["id"], "fixed in", fixed)
' build/supply-chain/report.json
    echo "audit: the packages above have known vulnerabilities: raise their versions in constraints.txt" >&2
    exit 1
  else
    tail -n 1 build/supply-chain/errors >&2
    echo "audit: nothing is known: the advisory service did not answer for every package; try again where it can be reached" >&2
    exit 3
  fi
  ;;
*)
  echo "usage: supply-chain.sh sbom|audit" >&2
  exit 2
  ;;
esac
