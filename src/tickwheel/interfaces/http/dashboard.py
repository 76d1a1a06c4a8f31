"""`/`: the frame of the dashboard. It holds no data: its scripts ask the API, with the token of whoever looks on.

All addresses in it are relative, so it works behind a prefix; nothing comes from elsewhere, so it works offline.
"""

from typing import Final

from tickwheel.interfaces.http.resource import Call
from tickwheel.interfaces.http.wire import Answer, Header

HEADERS: Final[tuple[Header, ...]] = (
    (b"content-type", b"text/html; charset=utf-8"),
    (
        b"content-security-policy",
        b"default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self';"
        b" base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    ),
)

_FRAME: Final = b"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Tickwheel</title>
<link rel="icon" href="assets/icon.svg" type="image/svg+xml">
<link rel="stylesheet" href="assets/pages.css">
<link rel="stylesheet" href="assets/dashboard.css">
<script type="module" src="assets/dashboard.js"></script>
</head>
<body>
<a class="skip" href="#main" id="skip">Skip to the content</a>
<header class="top">
<a class="brand" href="#/"><img src="assets/icon.svg" alt="">Tickwheel</a>
<nav id="pages" aria-label="Pages"></nav>
<div class="end"><div id="whose" class="whose"></div><button type="button" class="plain" id="theme"></button></div>
</header>
<main id="main" tabindex="-1"><noscript><p>The dashboard needs JavaScript.
<a href="docs">The API reference</a> does not.</p></noscript></main>
<footer>
<a href="docs">API reference</a>
<a href="openapi.json">OpenAPI</a>
<a href="metrics">Metrics</a>
<span id="about"></span>
</footer>
<div id="notes" role="status" aria-live="polite"></div>
</body>
</html>
"""


async def dashboard(call: Call) -> Answer:
    """The same for everybody."""
    return Answer(200, _FRAME, HEADERS)
