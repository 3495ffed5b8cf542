from collections.abc import Mapping, Sequence

import pytest

from ottla.errors import BrokerError, ErrorCode
from ottla.metadata.client_quotas import MatchType, describe_client_quotas
from ottla.metadata.controller import Controller
from ottla.metadata.image import QuotaEntity, quota_entity
from ottla.protocol.messages import alter_client_quotas as alter
from ottla.protocol.messages import describe_client_quotas as describe
from tests.metadata.cluster import a_controller, commit

Parts = Sequence[tuple[str, str | None]]
P, C = "producer_byte_rate", "consumer_byte_rate"


def entry(parts: Parts, values: Mapping[str, float | None]) -> alter.RequestEntryData:
    return alter.RequestEntryData(
        entity=[alter.EntityData(entity_type=kind, entity_name=name) for kind, name in parts],
        ops=[alter.OpData(key=key, value=value or 0.0, remove=value is None) for key, value in values.items()],
    )


def change(
    controller: Controller, *entries: alter.RequestEntryData, validate_only: bool = False
) -> list[tuple[int, str | None]]:
    request = alter.AlterClientQuotasRequest(entries=entries, validate_only=validate_only)
    answers = commit(controller, controller.alter_client_quotas(request)).entries
    assert [answer.entity for answer in answers] == [wanted.entity for wanted in entries]
    return [(answer.error_code, answer.error_message) for answer in answers]


OK = (ErrorCode.NONE, None)


def test_quotas_are_set_changed_and_removed() -> None:
    controller = a_controller()
    user = [("user", "u")]
    assert change(controller, entry(user, {P: 1_000.0, C: 2_000.0})) == [OK]
    assert controller.image.client_quotas == {quota_entity(user): {P: 1_000.0, C: 2_000.0}}
    assert change(controller, entry(user, {P: 500.0, C: None})) == [OK]
    assert controller.image.client_quotas == {quota_entity(user): {P: 500.0}}
    assert change(controller, entry(user, {P: None})) == [OK]
    assert controller.image.client_quotas == {}


def test_a_quota_that_is_set_already_is_not_written_again() -> None:
    controller = a_controller()
    change(controller, entry([("user", "u")], {P: 1_000.0}))
    before = controller.image
    assert change(controller, entry([("user", "u")], {P: 1_000.0, C: None})) == [OK]
    assert controller.image is before


@pytest.mark.parametrize(
    ("parts", "values"),
    [
        ([], {P: 1.0}),
        ([("planet", "p")], {P: 1.0}),
        ([("user", "u"), ("user", None)], {P: 1.0}),
        ([("user", "")], {P: 1.0}),
        ([("ip", "10.0.0.1"), ("user", "u")], {P: 1.0}),
        ([("ip", "10.0.0.1")], {"connection_creation_rate": 1.0}),
        ([("user", "u")], {"request_percentage": 1.0}),
        ([("user", "u")], {P: 0.0}),
        ([("user", "u")], {P: -5.0}),
        ([("user", "u")], {P: 1.5}),
        ([("user", "u")], {P: float("nan")}),
        ([("user", "u")], {P: float("inf")}),
    ],
)
def test_what_can_not_be_limited_is_refused(parts: Parts, values: Mapping[str, float | None]) -> None:
    controller = a_controller()
    before = controller.image
    ((code, message),) = change(controller, entry(parts, values))
    assert code == ErrorCode.INVALID_REQUEST
    assert message
    assert controller.image is before


def test_a_quota_given_twice_is_refused() -> None:
    twice = alter.RequestEntryData(
        entity=[alter.EntityData(entity_type="user", entity_name="u")],
        ops=[alter.OpData(key=P, value=1.0), alter.OpData(key=P, value=2.0)],
    )
    ((code, _),) = change(a_controller(), twice)
    assert code == ErrorCode.INVALID_REQUEST


def test_an_entity_given_twice_is_refused_and_others_are_not() -> None:
    controller = a_controller()
    wanted = [entry([("user", "u")], {P: 1.0}), entry([("user", "v")], {P: 2.0}), entry([("user", "u")], {C: 3.0})]
    codes = [code for code, _ in change(controller, *wanted)]
    assert codes == [ErrorCode.INVALID_REQUEST, ErrorCode.NONE, ErrorCode.INVALID_REQUEST]
    assert list(controller.image.client_quotas) == [(("user", "v"),)]


def test_a_change_can_be_tried_out() -> None:
    controller = a_controller()
    assert change(controller, entry([("user", "u")], {P: 1.0}), validate_only=True) == [OK]
    assert controller.image.client_quotas == {}


@pytest.fixture
def controller() -> Controller:
    controller = a_controller()
    entities: list[Parts] = [
        [("user", "u")],
        [("user", None)],
        [("user", "u"), ("client-id", "c")],
        [("client-id", "c")],
        [("client-id", None)],
    ]
    change(controller, *(entry(parts, {P: 1.0}) for parts in entities))
    return controller


def matching(
    controller: Controller, *components: tuple[str, int, str | None], strict: bool = False
) -> set[QuotaEntity]:
    request = describe.DescribeClientQuotasRequest(
        components=[
            describe.ComponentData(entity_type=kind, match_type=match_type, match=match)
            for kind, match_type, match in components
        ],
        strict=strict,
    )
    answer = describe_client_quotas(request, controller.image)
    assert (answer.error_code, answer.error_message) == (ErrorCode.NONE, None)
    return {
        quota_entity((part.entity_type, part.entity_name) for part in found.entity) for found in answer.entries or ()
    }


def test_without_a_filter_all_quotas_are_told(controller: Controller) -> None:
    assert matching(controller) == set(controller.image.client_quotas)
    request = describe.DescribeClientQuotasRequest()
    (values,) = {
        tuple((value.key, value.value) for value in found.values)
        for found in describe_client_quotas(request, controller.image).entries or ()
    }
    assert values == ((P, 1.0),)


def test_a_filter_matches_a_name_the_default_or_any_name(controller: Controller) -> None:
    both = quota_entity([("user", "u"), ("client-id", "c")])
    user, default_user = (("user", "u"),), (("user", None),)
    assert matching(controller, ("user", MatchType.EXACT, "u")) == {user, both}
    assert matching(controller, ("user", MatchType.EXACT, "nobody")) == set()
    assert matching(controller, ("user", MatchType.DEFAULT, None)) == {default_user}
    assert matching(controller, ("user", MatchType.SPECIFIED, None)) == {user, default_user, both}
    assert matching(controller, ("user", MatchType.EXACT, "u"), ("client-id", MatchType.SPECIFIED, None)) == {both}
    assert matching(controller, ("ip", MatchType.SPECIFIED, None)) == set()


def test_a_strict_filter_leaves_out_entities_with_other_parts(controller: Controller) -> None:
    assert matching(controller, ("user", MatchType.EXACT, "u"), strict=True) == {(("user", "u"),)}
    assert matching(controller, strict=True) == set()


@pytest.mark.parametrize(
    ("components", "code"),
    [
        ([("", 0, "x")], ErrorCode.INVALID_REQUEST),
        ([("planet", 0, "x")], ErrorCode.UNSUPPORTED_VERSION),
        ([("user", 0, None)], ErrorCode.INVALID_REQUEST),
        ([("user", 1, "u")], ErrorCode.INVALID_REQUEST),
        ([("user", 2, "u")], ErrorCode.INVALID_REQUEST),
        ([("user", 3, None)], ErrorCode.INVALID_REQUEST),
        ([("user", 0, "u"), ("user", 1, None)], ErrorCode.INVALID_REQUEST),
        ([("user", 0, "u"), ("ip", 0, "1.2.3.4")], ErrorCode.INVALID_REQUEST),
    ],
)
def test_a_filter_that_makes_no_sense_is_refused(
    controller: Controller, components: list[tuple[str, int, str | None]], code: ErrorCode
) -> None:
    with pytest.raises(BrokerError) as caught:
        matching(controller, *components)
    assert caught.value.code == code
