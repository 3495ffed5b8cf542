import pytest

from ottla.metadata.image import TopicImage, empty_image, quota_entity
from tests.metadata.cluster import a_broker, a_controller, create


def test_a_partition_is_found_by_topic_and_index() -> None:
    controller = a_controller()
    create(controller, "a", partitions=2)
    image = controller.image
    assert image.partition("a", 1) is image.topics["a"].partitions[1]
    assert image.partition("a", 2) is None
    assert image.partition("b", 0) is None


@pytest.mark.parametrize(("name", "is_internal"), [("__consumer_offsets", True), ("__mine", False), ("a", False)])
def test_the_cluster_knows_its_own_topics(name: str, is_internal: bool) -> None:
    assert TopicImage(name=name, topic_id=b"", partitions={}).is_internal is is_internal


def test_an_entity_is_the_same_in_any_order_and_the_default_is_not_an_empty_name() -> None:
    assert quota_entity([("user", "u"), ("client-id", None)]) == quota_entity([("client-id", None), ("user", "u")])
    assert quota_entity([("user", None)]) != quota_entity([("user", "")])
    assert quota_entity([("user", "u"), ("user", None)]) == (("user", None), ("user", "u"))


def test_a_fenced_broker_is_not_active() -> None:
    assert a_broker(1).is_active
    assert not a_broker(1, fenced=True).is_active


def test_an_image_begins_empty() -> None:
    image = empty_image({"f": (1, 2)})
    assert not image.topics
    assert image.features.supported == {"f": (1, 2)}
    assert image.features.finalized == {}
