#!/bin/sh
# Install Mosquitto for the tests where that is possible without asking: root on a Debian system.
# Elsewhere say so and go on: the tests that need it are skipped with the reason, or fail with CI=true.
set -u
if command -v mosquitto >/dev/null 2>&1 || [ -x /usr/sbin/mosquitto ]; then
    exit 0
fi
if [ "$(id -u)" = 0 ] && [ -f /etc/debian_version ]; then
    echo "installing mosquitto (Debian package, not started as a service)"
    # policy-rc.d keeps the package from starting a broker on this machine.
    policy=/usr/sbin/policy-rc.d
    made=no
    if [ ! -e "$policy" ]; then printf '#!/bin/sh\nexit 101\n' >"$policy" && chmod +x "$policy" && made=yes; fi
    DEBIAN_FRONTEND=noninteractive
    export DEBIAN_FRONTEND
    apt-get -qq -o DPkg::Lock::Timeout=120 update >/dev/null &&
        apt-get -qq -y -o DPkg::Lock::Timeout=120 install --no-install-recommends mosquitto >/dev/null ||
        echo "mosquitto could not be installed: its tests will be skipped (with CI=true they fail)" >&2
    [ "$made" = yes ] && rm -f "$policy"
else
    echo "mosquitto is not installed and this is not root on Debian: its tests will be skipped (with CI=true they fail)" >&2
fi
exit 0
