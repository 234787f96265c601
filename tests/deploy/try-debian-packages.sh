#!/bin/sh
# Builds the Debian packages, and installs, starts, replaces and removes them in a Debian 12 of its own.
# Needs root, debootstrap and Debian's packages: `make test-deb`. A chroot has no systemd: the commands of the units are
# started as their user by hand.
set -eu
cd "$(dirname "$0")/../.."
root=${HUSHMQ_DEBIAN_ROOT:-build/debian-root}
out=build/deb

say() { printf '%s\n' "$*"; }
inside() { chroot "$root" "$@"; }
as_user() { chroot --userspec=hushmq:hushmq "$root" "$@"; }

[ "$(id -u)" = 0 ] || { say "make test-deb: needs root, for chroot" >&2; exit 2; }
command -v debootstrap >/dev/null || { say "make test-deb: debootstrap is missing: apt-get install debootstrap" >&2; exit 2; }

for name in agent site; do
    .venv/bin/python deploy/debian/build_deb.py "$name" --out "$out" >/dev/null
done
if [ ! -x "$root/usr/bin/python3" ]; then
    say "making a Debian 12 in $root"
    debootstrap --variant=minbase --include=python3,adduser bookworm "$root" >/dev/null
fi
mount -t proc proc "$root/proc" 2>/dev/null || true
trap 'umount "$root/proc" 2>/dev/null || true' EXIT
rm -rf "$root/packages" && mkdir "$root/packages" && cp "$out"/*_amd64.deb "$root/packages/"

say "installing hushmq-agent"
inside sh -c 'dpkg --install /packages/hushmq-agent_*_amd64.deb' >/dev/null
inside hushmq --version
inside sh -c 'test "$(stat -c %a:%U:%G /etc/hushmq)" = 750:root:hushmq'
inside install --directory --owner hushmq --group hushmq --mode 0700 /var/lib/hushmq-agent
rm -f build/deb/ops.key
.venv/bin/hushmq keys new build/deb/ops.key >/dev/null
key=$(.venv/bin/hushmq keys show build/deb/ops.key | cut -d ' ' -f 1)
inside sh -c 'cat > /etc/hushmq/agent.toml && chown hushmq /etc/hushmq/agent.toml && chmod 600 /etc/hushmq/agent.toml' <<TOML
device = "wearable-1"
cohort = "home"
folder = "/var/lib/hushmq-agent"
[broker]
urls = ["mqtt://127.0.0.1:1"]
[trust]
ops_keys = ["$key"]
calibrator_keys = ["$key"]
epsilon_max = 4.0
[streams.presence.source]
kind = "simulate"
q = 0.15
r = 0.15
seed = 1
TOML
as_user hushmq agent check-config --config /etc/hushmq/agent.toml
say "starting the agent as its unit does"
command=$(sed -n 's/^ExecStart=//p' "$root/usr/lib/systemd/system/hushmq-agent.service")
# shellcheck disable=SC2086
chroot --userspec=hushmq:hushmq "$root" $command >build/deb/agent.log 2>&1 &
agent=$!
tries=0
# It answers before it has a broker; exit code 1 says that it is not connected.
until as_user hushmq agent status --config /etc/hushmq/agent.toml --json >build/deb/status.json 2>/dev/null || grep -q wearable-1 build/deb/status.json; do
    tries=$((tries + 1))
    if [ $tries -gt 100 ]; then say "the agent does not answer"; cat build/deb/agent.log; kill $agent; exit 1; fi
    sleep 0.2
done
kill -TERM $agent
wait $agent || { say "the agent ended with exit code $?"; exit 1; }

say "replacing it by hushmq-site"
inside sh -c 'dpkg --install /packages/hushmq-site_*_amd64.deb' >/dev/null
test ! -e "$root/usr/share/doc/hushmq-agent" || { say "hushmq-agent is still there"; exit 1; }
inside install --directory --owner hushmq --mode 0700 /tmp/demo
as_user env HOME=/tmp/demo TMPDIR=/tmp/demo hushmq demo --until-closed --seconds 60 --json >build/deb/demo.json
say "broker, calibrator and eight agents of the package closed the loop"

say "removing it"
inside dpkg --purge hushmq-site
left=$(inside sh -c 'ls -d /usr/lib/hushmq /usr/bin/hushmq /usr/lib/systemd/system/hushmq-* /usr/share/man/man1/hushmq* 2>/dev/null' || true)
if [ -n "$left" ]; then say "left behind: $left"; exit 1; fi
test -d "$root/var/lib/hushmq-agent" || { say "the state is gone"; exit 1; }
rm -rf "$root/var/lib/hushmq-agent" "$root/etc/hushmq" build/deb/ops.key
say "1 passed, 0 failed"
