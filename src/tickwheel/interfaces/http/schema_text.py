"""A parameter's schema in words."""

from tickwheel.interfaces.http.operations import Param


def schema_text(param: Param) -> str:
    """Such as `integer, 1 to 1000, default 50`."""
    schema = param.schema
    words = [str(schema.get("format") or schema.get("type") or "")]
    if "enum" in schema:
        words = [" or ".join(str(choice) for choice in schema["enum"])]
    if "minimum" in schema:
        words.append(f"{schema['minimum']} to {schema['maximum']}")
    if "default" in schema:
        words.append(f"default {schema['default']}")
    if param.required:
        words.append("required")
    return ", ".join(words)
