#!/bin/sh
# Install Chromium for the tests of the console where that is possible without asking: root on a Debian system.
# Elsewhere say so and go on: the tests that need it are skipped with the reason, or fail with CI=true.
set -u
if command -v chromium >/dev/null 2>&1; then
    exit 0
fi
if [ "$(id -u)" = 0 ] && [ -f /etc/debian_version ]; then
    echo "installing chromium (Debian package)"
    DEBIAN_FRONTEND=noninteractive
    export DEBIAN_FRONTEND
    apt-get -qq -o DPkg::Lock::Timeout=120 update >/dev/null &&
        apt-get -qq -y -o DPkg::Lock::Timeout=120 install --no-install-recommends chromium fonts-dejavu-core >/dev/null ||
        echo "chromium could not be installed: its tests will be skipped (with CI=true they fail)" >&2
else
    echo "chromium is not installed and this is not root on Debian: its tests will be skipped (with CI=true they fail)" >&2
fi
exit 0
