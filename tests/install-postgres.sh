#!/bin/sh
# Install PostgreSQL's server for the tests where that is possible without asking: root on a Debian system.
# Elsewhere say so and go on: the tests that need it are skipped with the reason, or fail with CI=true.
set -u
if command -v initdb >/dev/null 2>&1 || ls /usr/lib/postgresql/*/bin/initdb >/dev/null 2>&1; then
    exit 0
fi
if [ "$(id -u)" = 0 ] && [ -f /etc/debian_version ]; then
    echo "installing postgresql (Debian package, no cluster made, not started as a service)"
    # No cluster of its own: the tests make private ones in temporary folders.
    mkdir -p /etc/postgresql-common
    [ -e /etc/postgresql-common/createcluster.conf ] ||
        echo "create_main_cluster = false" >/etc/postgresql-common/createcluster.conf
    DEBIAN_FRONTEND=noninteractive
    export DEBIAN_FRONTEND
    apt-get -qq -o DPkg::Lock::Timeout=120 update >/dev/null &&
        apt-get -qq -y -o DPkg::Lock::Timeout=120 install --no-install-recommends postgresql >/dev/null ||
        echo "postgresql could not be installed: its tests will be skipped (with CI=true they fail)" >&2
else
    echo "postgresql is not installed and this is not root on Debian: its tests will be skipped (with CI=true they fail)" >&2
fi
exit 0
