"""The templates of all pages, and the files beside them."""

from __future__ import annotations

from hashlib import blake2b
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined, select_autoescape

from hushmq.console.pages_text import ago, at_most, duration, moment, percent, with_code

HERE = Path(__file__).parents[1]
STATIC = HERE / "static"


def _versions() -> dict[str, str]:
    files = sorted(file for file in STATIC.iterdir() if file.is_file())
    return {file.name: blake2b(file.read_bytes(), digest_size=6).hexdigest() for file in files}


class Renderer:
    """The templates of all pages. Whatever is put into one is escaped."""

    def __init__(self) -> None:
        self._environment = Environment(
            loader=FileSystemLoader(HERE / "templates"),
            autoescape=select_autoescape(default=True, default_for_string=True),
            undefined=StrictUndefined,
            auto_reload=False,
            trim_blocks=True,
            lstrip_blocks=True,
        )
        self.versions = _versions()
        self._environment.filters |= {
            "ago": ago,
            "moment": moment,
            "duration": duration,
            "percent": percent,
            "at_most": at_most,
            "with_code": with_code,
        }
        self._environment.globals["static"] = lambda name: f"/static/{name}?v={self.versions[name]}"

    def compile_all(self) -> None:
        """Compile every template, so that nobody's first view waits for it."""
        for name in self._environment.list_templates():
            self._environment.get_template(name)

    def page(self, template: str, **values: Any) -> str:
        """A rendered template."""
        return self._environment.get_template(template).render(**values)
