"""Nowhere but here: what would be sent is kept among the deliveries, so that rules and routes can
be tried before anybody hears of them.
"""

from collections.abc import Mapping

from fleetwatch.notify.transports.base import Config, ConfigField, Envelope, Receipt

KEPT = "kept here, sent nowhere"


class DeliveryLog:
    """Takes every message, and reaches nobody."""

    kind = "log"
    label = "Delivery log"
    needs = "Nothing: messages are kept under Messages and reach nobody. For a first try."
    can_edit = False
    person_by = ""
    fields: tuple[ConfigField, ...] = ()

    def validate(self, config: Mapping[str, str]) -> Config:
        return {}

    def describe(self, config: Mapping[str, str]) -> str:
        return KEPT

    def send(
        self, config: Mapping[str, str], envelope: Envelope, *, allow_private: bool
    ) -> Receipt:
        return Receipt(KEPT)


DELIVERY_LOG = DeliveryLog()
