"""What a request may hold, in one place. Every bound has its own error text; docs and OpenAPI print them."""

from typing import Final

SAFE_INTEGER: Final = 2**53
"""Beyond it, JSON numbers are not the same in every language."""

BODY_BYTES: Final = 1_048_576
"""Body of one job: a payload, headers and the rest, with room for escapes."""
BATCH_BODY_BYTES: Final = 64 * 1_048_576
BATCH_COUNT: Final = 10_000
PAYLOAD_BYTES: Final = 256 * 1024
PAYLOAD_DEPTH: Final = 128
OWN_DEPTH: Final = 64
"""Nesting of our own fields; a request is never this deep by honest means."""

TENANT_CHARS: Final = 64
NAME_CHARS: Final = 200
TAG_COUNT: Final = 20
TAG_CHARS: Final = 64
IDEMPOTENCY_KEY_CHARS: Final = 255
TIMEZONE_CHARS: Final = 64
CRON_CHARS: Final = 256
INSTANT_CHARS: Final = 40

ENDPOINT_CHARS: Final = 2048
HANDLER_NAME_CHARS: Final = 200
HEADER_COUNT: Final = 50
HEADER_NAME_CHARS: Final = 128
HEADER_VALUE_CHARS: Final = 4096
HEADERS_BYTES: Final = 16 * 1024
SECRET_NAME_CHARS: Final = 64

CONCURRENCY_COUNT: Final = 4
CONCURRENCY_KEY_CHARS: Final = 200
CONCURRENCY_LIMIT_MAX: Final = 10_000
CONCURRENCY_WAITING_MAX: Final = 1_000

TIMEOUT_SECONDS_MIN: Final = 0.1
TIMEOUT_SECONDS_MAX: Final = 3600
TIMEOUT_SECONDS_DEFAULT: Final = 30

RETRIES_MAX: Final = 100
RETRIES_DEFAULT: Final = 3
BACKOFF_SECONDS_MIN: Final = 0.1
BACKOFF_SECONDS_MAX: Final = 86_400
INITIAL_SECONDS_DEFAULT: Final = 10
INTERVAL_CAP_SECONDS_DEFAULT: Final = 300
MULTIPLIER_MIN: Final = 1
MULTIPLIER_MAX: Final = 100
MULTIPLIER_DEFAULT: Final = 2.0

CATCH_UP_MAX: Final = 1000
CATCH_UP_DEFAULT: Final = 100

DAY_MS: Final = 86_400_000
HORIZON_MS: Final = 3653 * DAY_MS
"""How far ahead an instant may lie: ten years, leap days included."""
DELAY_SECONDS_MAX: Final = HORIZON_MS // 1000
DEADLINE_SECONDS_MIN: Final = 1
DEADLINE_SECONDS_MAX: Final = HORIZON_MS // 1000
EPOCH_MS_MIN: Final = 100_000_000_000
"""1973-03-03. A smaller `run_at_epoch_ms` is a number of seconds or a delay by mistake."""
EPOCH_MS_MAX: Final = 253_402_300_799_999
"""The end of the year 9999; the horizon is what really bounds an instant."""
PAST_CLAMP_MS: Final = 3_600_000
"""A new run is never scheduled further back than this; an older instant is moved up to it, and fires at once."""

LIST_LIMIT_DEFAULT: Final = 50
LIST_LIMIT_MAX: Final = 1000
PREVIEW_COUNT_MAX: Final = 1000
