"""The dashboard's frame and files, as far as they can be judged without a browser."""

import re
from importlib.resources import files

import pytest

from .world import HttpWorld

ASSETS = {item.name: item.read_text() for item in files("tickwheel.interfaces.http").joinpath("assets").iterdir()}
SCRIPTS = {name: text for name, text in ASSETS.items() if name.endswith(".js")}
ADDRESS = re.compile(r"https?://[^\s\"'`]+")
SVG = "http://www.w3.org/2000/svg"


async def test_the_frame_holds_no_data_and_needs_no_token() -> None:
    world = await HttpWorld().open("t0ken")
    reply = await world.client.get("/")
    assert (reply.status, reply.headers["content-type"]) == (200, "text/html; charset=utf-8")
    policy = reply.headers["content-security-policy"]
    assert "default-src 'none'; script-src 'self'; style-src 'self'" in policy
    assert "unsafe" not in policy
    text = reply.body.decode()
    assert " style=" not in text
    assert not re.search(r"<script(?![^>]* src=)", text)
    links = re.findall(r'(?:href|src)="([^"#]+)"', text)
    assert {"assets/dashboard.js", "assets/dashboard.css", "docs", "openapi.json", "metrics"} <= set(links)
    for link in links:
        assert not link.startswith("/"), "a prefix before it would be lost"
        if link.startswith("assets/"):
            assert (await world.client.get(f"/{link}")).status == 200, link
    await world.close()


@pytest.mark.parametrize("name", sorted(SCRIPTS))
def test_scripts_build_text_as_text_and_ask_nobody_else(name: str) -> None:
    text = SCRIPTS[name]
    assert ADDRESS.findall(text) in ([], [SVG])
    for forbidden in ("insertAdjacentHTML", "outerHTML", "document.write", "eval(", "new Function", "javascript:"):
        assert forbidden not in text
    assert not re.search(r"innerHTML\s*=[^=]", text)
    for module in re.findall(r'from "\./([\w.]+)"', text):
        assert module in SCRIPTS


def test_every_script_is_used() -> None:
    used = {module for text in SCRIPTS.values() for module in re.findall(r'from "\./([\w.]+)"', text)}
    assert set(SCRIPTS) - used == {"dashboard.js"}


async def test_browsers_ask_whether_their_copy_is_still_the_one(world: HttpWorld) -> None:
    reply = await world.client.get("/assets/dashboard.js")
    assert reply.headers["content-type"] == "text/javascript; charset=utf-8"
    assert reply.headers["cache-control"] == "private, no-cache"
    again = await world.client.request(
        "GET", "/assets/dashboard.js", headers={"if-none-match": reply.headers["etag"]}
    )
    assert (again.status, again.body) == (304, b"")
    assert again.headers["etag"] == reply.headers["etag"]
    other = await world.client.request("GET", "/assets/dashboard.js", headers={"if-none-match": '"x"'})
    assert other.status == 200
