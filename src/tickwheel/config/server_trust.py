"""How a client or a worker knows its server over TLS, and is known to it."""

from pathlib import Path

import msgspec

from tickwheel.domain.errors import FieldProblem


class ServerTrust(msgspec.Struct, frozen=True, kw_only=True):
    """PEM files. No `ca_file`: the authorities that this machine trusts. The key may be in `client_cert` too."""

    ca_file: str | None = None
    client_cert: str | None = None
    client_key: str | None = None

    def problems(self) -> list[FieldProblem]:
        """What is wrong, under the names of the fields."""
        found = []
        if self.client_key and not self.client_cert:
            found.append(FieldProblem("client_key", "means nothing without client_cert; name the certificate too"))
        for name in self.__struct_fields__:
            path = getattr(self, name)
            if path and not Path(path).is_file():
                found.append(FieldProblem(name, f"there is no file {path}"))
        return found
