#!/bin/sh
# Installs Home Assistant from PyPI and Node-RED from npm into build/integrations, each where it can be had here.
set -eu
cd "$(dirname "$0")/../.."
mkdir -p build/integrations

newest_python() {
    for python in "${HOME_ASSISTANT_PYTHON:-}" python3.14 python3.13 "$HOME"/.pyenv/versions/3.1[34].*/bin/python3; do
        if [ -n "$python" ] && command -v "$python" >/dev/null && "$python" -c 'import sys; sys.exit(sys.version_info < (3, 13))'; then
            command -v "$python"
            return
        fi
    done
}

if [ ! -x build/integrations/home-assistant/bin/hass ]; then
    python=$(newest_python)
    if [ -z "$python" ]; then
        echo "no Home Assistant: it needs Python 3.13 or newer (HOME_ASSISTANT_PYTHON=/path/to/python)" >&2
    else
        echo "installing Home Assistant into build/integrations/home-assistant"
        "$python" -m venv build/integrations/home-assistant
        build/integrations/home-assistant/bin/python -m pip install --quiet --disable-pip-version-check homeassistant
    fi
fi
if [ ! -x build/integrations/node-red/node_modules/.bin/node-red ]; then
    if ! command -v npm >/dev/null; then
        echo "no Node-RED: npm is not installed" >&2
    else
        echo "installing Node-RED into build/integrations/node-red"
        npm install --silent --no-audit --no-fund --prefix build/integrations/node-red node-red
    fi
fi
