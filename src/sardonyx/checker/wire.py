"""What a protobuf message holds that its schema does not know."""

from __future__ import annotations

from google.protobuf.message import Message


def has_unknown_fields(message: Message) -> bool:
    """Whether there are fields that the message's schema does not have, at any depth."""
    twin = type(message)()
    twin.CopyFrom(message)
    twin.DiscardUnknownFields()
    return bool(twin.ByteSize() != message.ByteSize())
