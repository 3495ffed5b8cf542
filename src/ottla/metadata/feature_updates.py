"""The finalized levels of features go up and down: all that a request names, or nothing."""

from collections.abc import Sequence
from enum import IntEnum

from ottla.errors import BrokerError, ErrorCode
from ottla.metadata.deciding import Deciding, given_twice
from ottla.metadata.image import MetadataImage
from ottla.metadata.records import MetadataRecord
from ottla.protocol.messages.metadata_records import FeatureLevelRecord
from ottla.protocol.messages.update_features import (
    FeatureUpdateKey,
    UpdatableFeatureResult,
    UpdateFeaturesRequest,
    UpdateFeaturesResponse,
)
from ottla.replicated import Result


class UpgradeType(IntEnum):
    UNKNOWN = 0
    UPGRADE = 1
    SAFE_DOWNGRADE = 2
    UNSAFE_DOWNGRADE = 3


def update_features(
    deciding: Deciding, request: UpdateFeaturesRequest
) -> Result[MetadataRecord, UpdateFeaturesResponse]:
    if given_twice(update.feature for update in request.feature_updates):
        raise BrokerError(ErrorCode.INVALID_REQUEST, "A feature is named more than once.")
    for update in request.feature_updates:
        _require_possible(deciding.image, update)
    records: Sequence[MetadataRecord] = [
        FeatureLevelRecord(name=update.feature, feature_level=update.max_version_level)
        for update in request.feature_updates
        if update.max_version_level != deciding.image.features.finalized.get(update.feature, 0)
    ]
    results = [UpdatableFeatureResult(feature=update.feature, error_message=None) for update in request.feature_updates]
    response = UpdateFeaturesResponse(error_message=None, results=results)
    return Result(records=() if request.validate_only else records, response=response)


def _require_possible(image: MetadataImage, update: FeatureUpdateKey) -> None:
    level, current = update.max_version_level, image.features.finalized.get(update.feature, 0)
    reason = _unsupported(image, update) or _wrong_way(update, current)
    if reason:
        raise BrokerError(
            ErrorCode.INVALID_UPDATE_VERSION,
            f"Invalid update version {level} for feature {update.feature}. {reason}",
        )


def _unsupported(image: MetadataImage, update: FeatureUpdateKey) -> str:
    """By this software, or by that of any broker."""
    supported = [("The controller", image.features.supported)]
    supported += [(f"Broker {broker.broker_id}", broker.features) for broker in image.brokers.values()]
    for who, features in supported:
        low, high = features.get(update.feature, (0, 0))
        if not low <= update.max_version_level <= high:
            return f"{who} supports versions {low} to {high}."
    return ""


def _wrong_way(update: FeatureUpdateKey, current: int) -> str:
    """Version 0 of the request says by a flag whether the level may go down."""
    if not UpgradeType.UPGRADE <= update.upgrade_type <= UpgradeType.UNSAFE_DOWNGRADE:
        return "The controller does not support the given upgrade type."
    may_go_down = update.allow_downgrade or update.upgrade_type != UpgradeType.UPGRADE
    if update.max_version_level < current and not may_go_down:
        return "Going down must be asked for as a safe or an unsafe downgrade."
    if update.max_version_level > current and update.upgrade_type != UpgradeType.UPGRADE:
        return "A downgrade can't lead to a higher version."
    return ""
