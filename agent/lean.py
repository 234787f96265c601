"""Import our libraries without what they import for the sake of others: 5 MB less, 10 where rich is installed.

structlog imports rich to draw tracebacks and asyncio to log from coroutines; pydantic looks for plugins in the metadata
of all packages, which must not see a device's settings in any case; paho knows proxies through PySocks. While the
libraries are imported, stand-ins take these places; afterwards whoever wants the real ones gets them. Should a library
want more of one than there is, as a later version may, everything is imported anew with the real ones.
"""

from __future__ import annotations

import sys
from importlib import import_module
from importlib.util import find_spec
from types import ModuleType


def import_lean() -> None:
    """Import all that the daemon needs."""
    stand_ins: dict[str, ModuleType | None] = {"rich": None, "asyncio": ModuleType("asyncio")}
    stand_ins["importlib.metadata"] = _metadata()
    if find_spec("socks") is None:
        stand_ins["urllib.request"] = ModuleType("urllib.request")
    here = {name: module for name, module in stand_ins.items() if name not in sys.modules}
    before = {*sys.modules}
    sys.modules.update(here)  # type: ignore[arg-type]  # None is how an import is made to fail
    try:
        import_module("hushmq.agent.daemon")
    except (ImportError, AttributeError):
        for name in {*sys.modules} - before:
            del sys.modules[name]
        import_module("hushmq.agent.daemon")
    finally:
        for name, stand_in in here.items():
            if name in sys.modules and sys.modules[name] is stand_in:
                del sys.modules[name]


def _metadata() -> ModuleType:
    """Metadata of no packages at all."""
    found = ModuleType("importlib.metadata")
    vars(found).update(entry_points=lambda **_: (), distributions=lambda: (), version=lambda _name: "")
    return found
