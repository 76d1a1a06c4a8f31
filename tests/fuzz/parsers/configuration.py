"""Settings from a file and from the environment, and the keys that secrets are sealed under."""

import os
import tempfile
from pathlib import Path
from typing import Any

from hypothesis import strategies as st

from tickwheel.config import ENV_PREFIX, Settings, load_settings
from tickwheel.config.secret_keys import key_line, parse_secret_key, parse_secret_keys
from tickwheel.config.settings import FIELDS, TYPES
from tickwheel.domain.errors import ConfigError

from ..parser import Parser, encoded, to_text
from ..strategies import DIGITS, NOISE, joined, near, pick
from .addresses import SECRET

_NAMES = sorted(FIELDS)
_FOLDER = Path(tempfile.gettempdir()) / f"tickwheel-fuzz-{os.getpid()}"
_FILE = _FOLDER / "settings.toml"


def _forget() -> None:
    _FILE.unlink(missing_ok=True)
    if _FOLDER.is_dir():
        _FOLDER.rmdir()


def check_settings_file(data: bytes) -> bool:
    _FOLDER.mkdir(exist_ok=True)
    _FILE.write_bytes(data)
    try:
        settings = load_settings(flags={}, environ={}, config_file=_FILE)
    except ConfigError as error:
        _check_problems(error)
        return False
    _check_settings(settings)
    _FILE.write_text(_written(settings), encoding="utf-8")
    assert load_settings(flags={}, environ={}, config_file=_FILE) == settings
    return True


def _check_problems(error: ConfigError) -> None:
    assert error.problems
    assert all(problem.field and problem.message for problem in error.problems)
    assert len(str(error)) < 200_000


def _check_settings(settings: Settings) -> None:
    for name, wanted in TYPES.items():
        value = getattr(settings, name)
        if wanted == tuple[str, ...]:
            assert isinstance(value, tuple)
            assert all(isinstance(part, str) for part in value)
        else:
            assert type(value) is wanted
            if wanted is int:
                assert FIELDS[name].metadata["low"] <= value <= FIELDS[name].metadata["high"]
    assert repr(settings)


def _written(settings: Settings) -> str:
    return "".join(f"{name} = {_toml(getattr(settings, name))}\n" for name in _NAMES)


def _toml(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value)
    if isinstance(value, tuple):
        return f"[{', '.join(map(_toml, value))}]"
    return '"' + "".join(c if c.isprintable() and c not in '"\\' else f"\\U{ord(c):08x}" for c in value) + '"'


def check_environment(data: bytes) -> bool:
    lines = [line.partition("=") for line in to_text(data).split("\n")]
    environ = {name: value for name, _, value in lines if name}
    try:
        settings = load_settings(flags={}, environ=environ)
    except ConfigError as error:
        _check_problems(error)
        return False
    _check_settings(settings)
    return True


_STORES = pick(
    "memory:", "sqlite:data", f"postgresql://u:{SECRET}@h/db", "postgresql://h", "mysql://x", "", "redis://h"
)
_VALUES = st.one_of(
    *(
        DIGITS,
        NOISE,
        _STORES,
        pick("true", "false", "yes", "10.0.0.0/8", "api,worker", "scheduler", "text", "json"),
    ),
    pick(
        "api.example.com=5/s",
        "handler:a=1/m",
        "debug",
        "0.0.0.0",
        "::1",
        "whsec_" + "QUJD" * 10,
        "x" * 40,
        "localhost",
    ),
)
_TOML_VALUES = st.one_of(
    _VALUES.map(lambda text: _toml(text.encode("utf-8", "replace").decode())),
    st.lists(_VALUES.map(lambda text: _toml(text.encode("utf-8", "replace").decode())), max_size=3).map(
        lambda v: f"[{','.join(v)}]"
    ),
    *(
        DIGITS,
        pick(
            "true",
            "false",
            "1.5",
            "inf",
            "nan",
            "1979-05-27T07:32:00Z",
            "07:32:00",
            "{a=1}",
            "[[1]]",
            "0xff",
            "'''x'''",
        ),
    ),
)
_FILES = st.lists(
    st.one_of(
        joined(st.sampled_from(_NAMES), " = ", _TOML_VALUES),
        joined(NOISE, "=", _TOML_VALUES),
        pick("# note", "[a]", "[[a]]", "a.b=1"),
    ),
    max_size=4,
).map("\n".join)
_ENVIRONMENTS = st.lists(
    joined(
        st.one_of(st.sampled_from(_NAMES).map(lambda name: ENV_PREFIX + name.upper()), joined(ENV_PREFIX, NOISE)),
        "=",
        _VALUES,
    ),
    max_size=4,
).map("\n".join)


def check_secret_keys(data: bytes) -> bool:
    text = to_text(data)
    taken = False
    try:
        key = parse_secret_key(text)
    except ValueError as error:
        assert type(error) is ValueError
        assert len(str(error)) < 200
    else:
        taken = True
        assert parse_secret_key(key_line(key)) == key
        assert len(key.key) == 32
    try:
        keys = parse_secret_keys(text.splitlines())
    except ValueError as error:
        assert type(error) is ValueError
        assert len(str(error)) < 200
    else:
        taken = taken or bool(keys)
        assert parse_secret_keys(map(key_line, keys)) == keys
    return taken


_KEYS = joined(
    pick("", "a:", "key-1:", "a b:", ":", "x" * 33 + ":"),
    st.binary(min_size=30, max_size=34).map(lambda raw: _base64(raw)),
)


def _base64(raw: bytes) -> str:
    from base64 import b64encode, urlsafe_b64encode

    return (b64encode if raw[0] & 1 else urlsafe_b64encode)(raw).decode()


PARSERS = (
    Parser(
        name="settings_file",
        check=check_settings_file,
        grammar=lambda: near(_FILES),
        examples=encoded(
            [
                'port = 8080\nhost = "127.0.0.1"\ntoken = ["0123456789abcdef"]\n',
                'store = "memory:"\nhost_rate = ["a=1/s"]\nauto_migrate = false\n',
                f'store = "postgresql://u:{SECRET}@h/db"\nroles = ["api", "worker", "scheduler"]\n',
                'allow_private = ["10.0.0.0/8"]\n',
            ]
        ),
        words=(
            b"=",
            b'"',
            b"[",
            b"]",
            b"{",
            b"}",
            b"\n",
            b"'''",
            b"[[a]]",
            b"0x",
            b"inf",
            b"1979-05-27",
            b"#",
            b"\\u0000",
            b"port",
        ),
        close=_forget,
    ),
    Parser(
        name="settings_environment",
        check=check_environment,
        grammar=lambda: near(_ENVIRONMENTS),
        examples=encoded(
            [
                "TICKWHEEL_PORT=8080\nTICKWHEEL_TOKEN=0123456789abcdef,fedcba9876543210",
                "TICKWHEEL_STORE=memory:\nTICKWHEEL_LOG_LEVEL=debug",
                "TICKWHEEL_ALLOW_PRIVATE=10.0.0.0/8, fd00::/8\nTICKWHEEL_HOST_RATE=a=1/s",
                "TICKWHEEL_AUTO_MIGRATE=no",
            ]
        ),
        words=(b"TICKWHEEL_", b"=", b"\n", b",", b"PORT", b"STORE", b"on", b"off"),
    ),
    Parser(
        name="secret_keys",
        check=check_secret_keys,
        grammar=lambda: near(
            st.lists(st.one_of(_KEYS, pick("# note", "")), min_size=1, max_size=3).map("\n".join)
        ),
        examples=encoded(["a:" + "QUFB" * 10 + "QUE=", "QUFB" * 10 + "QUE=", "# x\nb:" + "_-FB" * 10 + "QUE="]),
        words=(b":", b"=", b"#", b"\n", b"-", b"_", b"+", b"/"),
        share=0.5,
    ),
)
