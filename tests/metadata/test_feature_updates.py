from dataclasses import replace
from typing import Any

import pytest

from ottla.errors import BrokerError, ErrorCode
from ottla.metadata.controller import Controller
from ottla.metadata.features import METADATA_LEVEL, METADATA_VERSION, SUPPORTED_FEATURES
from ottla.protocol.messages.update_features import FeatureUpdateKey, UpdateFeaturesRequest
from tests.metadata.cluster import a_controller, commit, registration

NEW = "some.version"
UPGRADE, SAFE_DOWNGRADE = 1, 2


@pytest.fixture
def controller(monkeypatch: pytest.MonkeyPatch) -> Controller:
    """A cluster whose software can do more than it uses."""
    monkeypatch.setattr("ottla.metadata.state.SUPPORTED_FEATURES", {**SUPPORTED_FEATURES, NEW: (0, 3)})
    monkeypatch.setattr("ottla.metadata.controller.SUPPORTED_FEATURES", {**SUPPORTED_FEATURES, NEW: (0, 3)})
    controller = a_controller(0)
    able = replace(registration(1), features={**SUPPORTED_FEATURES, NEW: (0, 2)})
    commit(controller, controller.register_broker(able))
    return controller


def update(controller: Controller, *levels: int, only: bool = False, **fields: Any) -> None:
    updates = [FeatureUpdateKey(feature=NEW, max_version_level=level, **fields) for level in levels]
    request = UpdateFeaturesRequest(feature_updates=updates, validate_only=only)
    commit(controller, controller.update_features(request))


def test_a_level_goes_up_and_the_epoch_with_it(controller: Controller) -> None:
    before = controller.image.features.epoch
    update(controller, 2)
    assert controller.image.features.finalized[NEW] == 2
    assert controller.image.features.epoch == before + 1


def test_it_goes_down_if_that_is_meant(controller: Controller) -> None:
    update(controller, 2)
    refused(controller, 1)
    update(controller, 1, upgrade_type=SAFE_DOWNGRADE)
    assert controller.image.features.finalized[NEW] == 1
    update(controller, 0, allow_downgrade=True)
    assert NEW not in controller.image.features.finalized


def refused(controller: Controller, *levels: int, code: int = ErrorCode.INVALID_UPDATE_VERSION, **fields: Any) -> None:
    before = controller.image
    with pytest.raises(BrokerError) as refusal:
        update(controller, *levels, **fields)
    assert refusal.value.code == code
    assert controller.image is before


def test_what_the_software_or_a_broker_can_not_do_is_refused(controller: Controller) -> None:
    refused(controller, 4)
    refused(controller, 3)
    refused(controller, -1)


def test_a_change_must_be_of_the_kind_that_it_says(controller: Controller) -> None:
    refused(controller, 1, upgrade_type=SAFE_DOWNGRADE)
    refused(controller, 1, upgrade_type=0)
    refused(controller, 1, upgrade_type=9)


def test_a_feature_is_named_once(controller: Controller) -> None:
    refused(controller, 1, 2, code=ErrorCode.INVALID_REQUEST)


def test_only_asking_changes_nothing(controller: Controller) -> None:
    before = controller.image
    update(controller, 2, only=True)
    assert controller.image is before


def test_what_is_always_on_can_not_be_switched_off(controller: Controller) -> None:
    wanted = FeatureUpdateKey(feature=METADATA_VERSION, max_version_level=METADATA_LEVEL - 1, upgrade_type=3)
    with pytest.raises(BrokerError) as refusal:
        controller.update_features(UpdateFeaturesRequest(feature_updates=[wanted]))
    assert refusal.value.code == ErrorCode.INVALID_UPDATE_VERSION
