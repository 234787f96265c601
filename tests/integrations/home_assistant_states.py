"""Runs Home Assistant's core with its MQTT integration, and prints the states of its entities as JSON.

Started with the Python that Home Assistant is installed for, which knows nothing of hushmq:
    python home_assistant_states.py FOLDER PORT PROTOCOL USER PASSWORD SECONDS
It ends as soon as a sensor and a binary sensor have states, or after that many seconds.
"""
# mypy: ignore-errors

import asyncio
import json
import sys
from types import MappingProxyType

from homeassistant import bootstrap, config_entries, core, loader
from homeassistant.auth import auth_manager_from_config

UNKNOWN = {"unknown", "unavailable"}


async def states(folder: str, port: str, protocol: str, user: str, password: str, seconds: str) -> dict:
    """Return the states by entity, their attributes among them."""
    hass = core.HomeAssistant(folder)
    loader.async_setup(hass)
    hass.config_entries = config_entries.ConfigEntries(hass, {})
    await bootstrap.async_load_base_functionality(hass)
    hass.auth = await auth_manager_from_config(hass, [], [])
    login = {
        "broker": "127.0.0.1",
        "port": int(port),
        "protocol": protocol,
        "username": user,
        "password": password,
    }
    entry = config_entries.ConfigEntry(
        data=login,
        discovery_keys=MappingProxyType({}),
        domain="mqtt",
        minor_version=2,
        options={},
        source="user",
        subentries_data=None,
        title="hushmq",
        unique_id=None,
        version=1,
    )
    await hass.config_entries.async_add(entry)
    await hass.async_start()
    found: dict = {}
    for _ in range(int(seconds) * 2):
        await asyncio.sleep(0.5)
        found = {one.entity_id: {"state": one.state, **one.attributes} for one in hass.states.async_all()}
        known = {name.split(".")[0] for name, one in found.items() if one["state"] not in UNKNOWN}
        if known >= {"sensor", "binary_sensor"}:
            break
    await hass.async_stop(force=True)
    return {"entry": str(entry.state), "states": found}


if __name__ == "__main__":
    print(json.dumps(asyncio.run(states(*sys.argv[1:])), default=str))
