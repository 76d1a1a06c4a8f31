"""Which settings of TLS go together. What the files hold is looked at where they are read."""

from tickwheel.config.settings import Settings, Wrong


def check_tls(settings: Settings, wrong: Wrong) -> None:
    """Tell what is wrong."""
    if settings.tls_cert and not settings.tls_key:
        wrong("tls_key", "is missing: name the certificate's private key (the same file, if it holds both)")
    if settings.tls_key and not settings.tls_cert:
        wrong("tls_cert", "is missing: name the certificate that tls_key belongs to")
    if not settings.tls_cert and not settings.tls_key:
        for name in ("tls_key_password", "tls_client_ca"):
            if getattr(settings, name):
                wrong(name, "means nothing without tls_cert and tls_key; add them, or leave it out")
