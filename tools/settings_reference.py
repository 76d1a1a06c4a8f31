"""Writes the generated part of `docs/reference/configuration.md` from the settings themselves.

usage: python tools/settings_reference.py [--check]      (--check writes nothing and fails when the page is old)
"""

import sys
from dataclasses import fields
from pathlib import Path
from typing import Any, get_type_hints

from generated_page import GeneratedPage, table
from tickwheel.config import ENV_PREFIX, Settings, default_text, setting_default, setting_help

KINDS: dict[Any, str] = {
    bool: "true or false",
    int: "whole number",
    str: "text",
    tuple[str, ...]: "list of texts",
}


def render() -> str:
    """One line per setting."""
    types = get_type_hints(Settings)
    rows = []
    for field in fields(Settings):
        low, high = field.metadata["low"], field.metadata["high"]
        kind = KINDS[types[field.name]] + (f", {low:,} to {high:,}" if low is not None else "")
        names = f"`{field.name}`<br>`{_flag(field.name)}`<br>`{ENV_PREFIX}{field.name.upper()}`"
        rows.append((names, kind, _default(field.name), setting_help(field.name)))
    return table(("setting", "value", "default", "meaning"), rows)


def _flag(name: str) -> str:
    return "--" + name.replace("_", "-")


def _default(name: str) -> str:
    if setting_default(name) is False:
        return "false"
    text = default_text(name)
    return f"`{text}`" if text and text != "true" else text


PAGE = GeneratedPage(Path("docs/reference/configuration.md"), tool="settings_reference.py", render=render)

if __name__ == "__main__":
    sys.exit(PAGE.main(sys.argv[1:]))
