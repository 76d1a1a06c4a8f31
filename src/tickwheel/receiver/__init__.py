"""For the other side of a webhook: check that it is from Tickwheel, and make its effect happen once.

    receiver = WebhookReceiver(
        effect,  # def effect(delivery, connection): ...
        secrets=[os.environ["TICKWHEEL_WEBHOOK_SECRET"]],
        guard=SqlGuard(),
        connect=pool.connection,
    )

Nothing of Tickwheel's server is imported here, nor any driver.
"""

from tickwheel.receiver.asgi import WebhookReceiver
from tickwheel.receiver.delivery import Delivery, verify
from tickwheel.receiver.redis_guard import AsyncRedisGuard, RedisGuard
from tickwheel.receiver.refusals import (
    DeliveryInProgress,
    OversizedDelivery,
    Reason,
    RefusedDelivery,
    StaleDelivery,
    UnverifiedDelivery,
)
from tickwheel.receiver.sql_guard import POSTGRESQL_SCHEMA, SQLITE_SCHEMA, AsyncSqlGuard, SqlGuard
from tickwheel.receiver.turns import Answer, AsyncGuard, Guard, Turn
from tickwheel.receiver.wsgi import WsgiReceiver

__all__ = [
    "POSTGRESQL_SCHEMA",
    "SQLITE_SCHEMA",
    "Answer",
    "AsyncGuard",
    "AsyncRedisGuard",
    "AsyncSqlGuard",
    "Delivery",
    "DeliveryInProgress",
    "Guard",
    "OversizedDelivery",
    "Reason",
    "RedisGuard",
    "RefusedDelivery",
    "SqlGuard",
    "StaleDelivery",
    "Turn",
    "UnverifiedDelivery",
    "WebhookReceiver",
    "WsgiReceiver",
    "verify",
]
