"""Settings of notifications: the mail server, and where people find the dashboard."""

import re
from typing import Final

from tickwheel.config.settings import Settings, Wrong
from tickwheel.domain.mail_server import read_mail_server
from tickwheel.domain.notifications.rule import address_fault

_PUBLIC_URL: Final = re.compile(r"https?://[A-Za-z0-9._\-\[\]:]+(/[\x21\x24-\x3b\x3d\x40-\x7e]*)?", re.ASCII)
_DOMAIN: Final = re.compile(r"[a-z0-9][a-z0-9-]{0,62}(\.[a-z0-9][a-z0-9-]{0,62})*", re.ASCII)


def check_notifications(settings: Settings, wrong: Wrong) -> None:
    """Tell what can't be used, and what is missing beside what was given."""
    if settings.public_url and _PUBLIC_URL.fullmatch(settings.public_url) is None:
        wrong("public_url", "must look like https://jobs.example.com, without a user, a query or a fragment")
    if settings.smtp_url:
        try:
            read_mail_server(settings.smtp_url)
        except ValueError as error:
            wrong("smtp_url", str(error))
        if not settings.smtp_from:
            wrong("smtp_from", "is missing; mail needs an address that it comes from")
    if settings.smtp_from:
        fault = address_fault(settings.smtp_from)
        if fault is not None:
            wrong("smtp_from", fault)
        if not settings.smtp_url:
            wrong("smtp_url", "is missing; smtp_from alone sends nothing")
    for domain in settings.smtp_domains:
        if _DOMAIN.fullmatch(domain) is None:
            wrong("smtp_domains", f"{domain!r} is no domain such as example.com, in small letters")
