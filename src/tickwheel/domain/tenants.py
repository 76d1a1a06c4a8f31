"""The bucket of a tenant: eleven bits that every timer carries, so that fairness needs no definition.

Timers are shared out to slots before anything else of their jobs is read. A bucket is a stable hash of the
tenant's id, the same in every process and version; timers that were stored by versions without buckets have
`NO_BUCKET`, which no tenant gets. Among 100 busy tenants about 2 or 3 pairs share a bucket, hence a share.
"""

from functools import lru_cache
from hashlib import blake2b
from typing import Final

from tickwheel.domain.columns import FLAG_BUCKET_SHIFT

BUCKET_COUNT: Final = 2048
NO_BUCKET: Final = 0


@lru_cache(maxsize=16_384)
def tenant_bucket(tenant_id: str) -> int:
    """1 to 2,047."""
    digest = blake2b(tenant_id.encode(errors="surrogatepass"), digest_size=8).digest()
    return int.from_bytes(digest, "big") % (BUCKET_COUNT - 1) + 1


def bucket_flags(tenant_id: str) -> int:
    """The bucket as it stands in the flags of TIMER rows."""
    return tenant_bucket(tenant_id) << FLAG_BUCKET_SHIFT
