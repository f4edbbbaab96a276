"""What suppliers and consumers can be told alike."""

from __future__ import annotations

import datetime
import os
import typing


class ConnectionOptions(typing.TypedDict, total=False):
    """Which service, how it is reached, and what the program is called there."""

    name: str | None
    server: str | None
    transport: str | None
    event_form: str | None
    event_domain: str | None
    naming: str | None
    naming_domain: str | None
    context: str | None
    tls_ca: str | os.PathLike[str] | None
    tls_certificate: str | os.PathLike[str] | None
    tls_key: str | os.PathLike[str] | None
    #: Settings of DDS by their names: ``{"reliable": False, "late_joiners": 1, "domains": {"ALMA": 7}}``.
    dds: dict[str, typing.Any] | None
    wait_for_service: float | datetime.timedelta | None
