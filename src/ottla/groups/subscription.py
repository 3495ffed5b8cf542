"""The one thing the coordinator reads of what members say about themselves: the topics that they want.

They are at the start of every version of the consumer protocol's subscription, so it is read as the first version,
whatever it says that it is.
"""

from ottla.errors import ProtocolError
from ottla.protocol.codec import codec_for
from ottla.protocol.messages.consumer_protocol import ConsumerProtocolSubscription
from ottla.protocol.versioned import VERSION

CONSUMER_PROTOCOL_TYPE = "consumer"


def subscribed_topics(subscription: bytes) -> frozenset[str] | None:
    """None if this is not a subscription of the consumer protocol."""
    try:
        message, _ = codec_for(ConsumerProtocolSubscription, 0).decode(subscription, VERSION.size)
    except ProtocolError:
        return None
    return frozenset(message.topics)
