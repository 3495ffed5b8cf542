"""The console as people meet it: three nodes, `ottla console`, and Chromium.

One cluster and one browser serve all of it, so it is one test with a part for each thing that is promised.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import pytest
from confluent_kafka import Consumer as RawConsumer
from confluent_kafka import TopicPartition as RawPartition
from playwright.sync_api import Page, expect

from ottla.client.admin import Admin
from ottla.client.cluster import LATEST
from ottla.client.producer import Producer
from tests.console.browser import PHONE, Visitor, figure, row, started_browser
from tests.console.rig import LETTERS, LOADED_WITHIN_S, PAYMENTS, TOPICS, ConsoleProcess, RackedCluster, Story

READ_WITHIN_S = 30.0
PAGES = (
    "/",
    "/topics",
    "/topics/orders",
    "/topics/orders/configs",
    "/topics/orders/messages",
    "/topics/orders/messages/0/5",
    "/topics/orders/tail",
    "/topics/orders/produce",
    "/groups",
    "/groups/billing",
    "/transactions",
    "/letters",
    "/letters/payments.settle.dlq",
    "/plan",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Scene:
    cluster: RackedCluster
    visitor: Visitor
    directory: Path

    @property
    def bootstrap(self) -> str:
        return self.cluster.bootstrap


@pytest.mark.timeout(900)
def test_the_console(tmp_path: Path, subtests: pytest.Subtests) -> None:
    with RackedCluster(tmp_path) as cluster:
        story = Story(cluster.bootstrap)
        story.tell()
        with (
            ConsoleProcess(tmp_path, cluster.bootstrap, "console", "--port", "0") as console,
            started_browser() as chromium,
        ):
            scene = Scene(cluster=cluster, visitor=Visitor(chromium, console.url), directory=tmp_path)
            for part in PARTS:
                with subtests.test(part.__name__):
                    part(scene)
            assert "Traceback" not in console.log()
        story.end()


def the_cluster_has_its_racks_brokers_and_partitions(scene: Scene) -> None:
    with Admin(bootstrap_servers=scene.bootstrap) as admin:
        partitions = sum(topic.partitions for topic in admin.list_topics(include_internal=True))
    with scene.visitor.at("/") as page:
        expect(page.locator(".rack")).to_have_count(3)
        expect(page.locator(".rack h2 b")).to_have_text(["north", "south", "west"])
        expect(page.locator(".badge", has_text="controller")).to_have_count(1)
        assert figure(page, "Brokers") == "3"
        assert figure(page, "Topics") == str(len(TOPICS))
        assert figure(page, "Partitions") == str(partitions)
        assert page.locator(".cell.leader").count() == partitions + 1  # and the one that explains it
        scene.visitor.problems.extend(_without_names(page))


def _without_names(page: Page) -> list[str]:
    """Buttons and fields that a screen reader could not name."""
    nameless = (
        "els => els.filter(e => !e.ariaLabel && !e.textContent.trim() && !e.labels?.length).map(e => e.outerHTML)"
    )
    found: list[str] = page.locator("button, input, select, textarea").evaluate_all(nameless)
    return found


def topics_have_true_figures(scene: Scene) -> None:
    with scene.visitor.at("/topics") as page:
        assert row(page, "orders")[:4] == ["orders", "6", "3", "600"]
        assert row(page, "customers")[:4] == ["customers", "3", "3", "4"]
        page.keyboard.press("/")
        page.keyboard.type("sensor")
        shown = page.locator("tbody tr:visible")
        expect(shown).to_have_count(1)
        with Admin(bootstrap_servers=scene.bootstrap) as admin:  # what comes later is filtered too
            admin.create_topic("sensor-late")
            expect(shown).to_have_count(2)
            admin.delete_topic("sensor-late")
            expect(shown).to_have_count(1)
    with scene.visitor.at("/topics/orders") as page:
        assert [row(page, str(index))[3:5] for index in range(6)] == [["100", "100"]] * 6


def configs_tell_what_was_set_for_the_topic(scene: Scene) -> None:
    with scene.visitor.at("/topics/orders/configs") as page:
        own = page.locator(".panel", has_text="Set for this topic")
        expect(own.locator("tbody tr")).to_have_text("retention.ms604800000")


def messages_are_browsed_newest_first_with_json_set_out(scene: Scene) -> None:
    with scene.visitor.at("/topics/orders/messages") as page:
        expect(page.locator(".msg")).to_have_count(50)
        page.get_by_role("button", name="Go on").click()
        expect(page.locator(".msg")).to_have_count(100)
        first = page.locator(".msg").first
        first.locator("summary").click()
        expect(first.locator("pre.value")).to_contain_text('"city": ')
        expect(first.locator(".headers dt")).to_have_text("trace")


def messages_are_found_by_text_key_header_and_place_in_json(scene: Scene) -> None:
    with scene.visitor.at("/topics/orders/messages") as page:
        for query, found in (
            ("$.order:77", 1),
            ("key:user-7", 15),
            ("header:trace:004d", 1),
            ("SIŘEM", 50),
            ("nobody", 0),
        ):
            page.get_by_label("Search", exact=True).fill(query)
            page.keyboard.press("Enter")
            expect(page.locator(".panel h2")).to_have_text("1 match" if found == 1 else f"{found} matches")
            expect(page.locator(".msg")).to_have_count(found)
        page.get_by_label("Search", exact=True).fill("$[nonsense")
        page.keyboard.press("Enter")
        expect(page.get_by_role("alert")).to_contain_text("can't be read")


def any_offset_and_any_time_can_be_gone_to(scene: Scene) -> None:
    with scene.visitor.at("/topics/orders/messages?start=offset&offset=95&partition=2") as page:
        expect(page.locator(".msg .place")).to_have_text([f"2 : {offset}" for offset in range(95, 100)])
        page.get_by_label("Show").select_option("time")
        page.get_by_label("Time (UTC)").fill("2020-01-01T00:00")
        page.get_by_role("button", name="Look").click()
        expect(page.locator(".msg")).to_have_count(50)
        expect(page.locator(".msg .place").first).to_have_text("2 : 0")
        page.get_by_label("Time (UTC)").fill("2099-01-01T00:00")
        page.get_by_role("button", name="Look").click()
        expect(page.locator(".empty")).to_have_text("There are no messages here.")
        expect(page).to_have_url(re.compile("start=time.*time=2099"))
        page.reload()
        expect(page.locator(".empty")).to_have_text("There are no messages here.")


def what_the_form_writes_is_read_by_a_kafka_client(scene: Scene) -> None:
    with scene.visitor.at("/topics/customers/produce") as page:
        page.get_by_label("Key", exact=True).fill("felice")
        page.get_by_label("Partition", exact=True).fill("1")
        page.get_by_label("Value", exact=True).fill('{"name": "Felice", "html": "<img src=x onerror=hacked=1>"}')
        page.get_by_label("Headers", exact=True).fill("trace: af01\nempty")
        page.get_by_label("Must be JSON").check()
        page.keyboard.press("Control+Enter")
        expect(page.locator(".notice.good")).to_contain_text("Written to customers-1 at offset ")
        offset = int(page.locator(".notice.good").inner_text().split("offset ")[1].split(".")[0])
        page.get_by_role("link", name="Show it").click()
        expect(page.locator(".message")).to_contain_text('"name": "Felice"')
        assert page.evaluate("window.hacked") is None
    read = read_one(scene.bootstrap, "customers", 1, offset)
    assert read.key() == b"felice"
    assert read.value() == b'{"name": "Felice", "html": "<img src=x onerror=hacked=1>"}'
    assert read.headers() == [("trace", b"af01"), ("empty", None)]


def read_one(bootstrap: str, topic: str, partition: int, offset: int) -> Any:
    consumer = RawConsumer({"bootstrap.servers": bootstrap, "group.id": "reader", "enable.auto.commit": False})
    try:
        consumer.assign([RawPartition(topic, partition, offset)])
        message = consumer.poll(READ_WITHIN_S)
        assert message is not None
        assert message.error() is None
        return message
    finally:
        consumer.close()


def what_can_not_be_written_is_told(scene: Scene) -> None:
    with scene.visitor.at("/topics/customers/produce") as page:
        page.get_by_label("Value", exact=True).fill("{not json")
        page.get_by_label("Must be JSON").check()
        page.get_by_role("button", name="Write").click()
        expect(page.get_by_role("alert")).to_contain_text("The value is not JSON")
        page.get_by_label("Must be JSON").uncheck()
        page.get_by_label("Partition", exact=True).fill("77")
        page.get_by_role("button", name="Write").click()
        expect(page.get_by_role("alert")).to_have_text("customers has no partition 77.")


def the_live_tail_shows_what_a_kafka_client_writes(scene: Scene) -> None:
    with (
        scene.visitor.at("/topics/sensor.readings/tail") as page,
        Producer(bootstrap_servers=scene.bootstrap) as producer,
    ):
        expect(page.locator(".empty")).to_contain_text("Waiting")
        page.get_by_label("Only messages with").fill("celsius")
        page.keyboard.press("Enter")
        number = 0
        while not page.locator(".msg").count():  # the tail begins where the topic ends when it has found that out
            producer.send("sensor.readings", {"celsius": number}, "probe").result()
            producer.send("sensor.readings", {"other": number}, "probe").result()
            number += 1
            page.wait_for_timeout(200)
        expect(page.locator(".msg .preview").first).to_contain_text("celsius")
        page.get_by_role("button", name="Hold").click()
        expect(page.locator(".panel h2").last).to_have_text("Held")


def groups_have_true_lag_and_the_reason_for_it(scene: Scene) -> None:
    with Admin(bootstrap_servers=scene.bootstrap) as admin:
        lag = sum(each.lag.records or 0 for each in admin.group_lag("billing"))
    with scene.visitor.at("/groups") as page:
        cells = row(page, "billing")
        assert [cells[1], cells[2], cells[4], cells[6]] == ["Empty", "0", str(lag), "no members"]
        assert row(page, "search-index")[4] == "0"
    with scene.visitor.at("/groups/billing") as page:
        expect(page.locator(".notice")).to_contain_text("Nobody reads")
        expect(page.locator("svg.chart")).to_have_count(2)
        assert figure(page, "Records waiting") == str(lag)
        assert row(page, "orders-0")[1:4] == ["20", "100", "80"]


def open_transactions_are_listed(scene: Scene) -> None:
    with scene.visitor.at("/transactions") as page:
        cells = row(page, "ledger-writer-1")
        assert cells[1] == "Ongoing"
        assert cells[3] == "15 min"
        assert cells[6] == "ledger-0"


def the_plan_says_whether_anything_should_move(scene: Scene) -> None:
    with scene.visitor.at("/plan") as page:
        expect(page.locator(".notice.good")).to_contain_text("Nothing has to move")


def dead_letters_are_sent_back(scene: Scene) -> None:
    with scene.visitor.at("/letters") as page:
        assert row(page, "payments.settle.dlq")[1] == str(LETTERS)
    with scene.visitor.at("/letters/payments.settle.dlq") as page:
        expect(page.locator(".msg")).to_have_count(LETTERS)
        page.locator(".msg summary").first.click()
        expect(page.locator(".trace").first).to_contain_text("ValueError: no account for payment")
        page.get_by_role("button", name="Redrive …").click()
        page.get_by_role("button", name="Yes, redrive").click()
        expect(page.locator(".notice.good")).to_have_text(f"{LETTERS} letters sent back to be processed again.")
        expect(page.locator(".empty")).to_have_text("No letters wait.")
    with Admin(bootstrap_servers=scene.bootstrap) as admin:
        ends = admin.topic_offsets("payments", LATEST)
    last = read_one(scene.bootstrap, "payments", 0, PAYMENTS // 3)
    assert dict(last.headers())["ottla.redriven.topic"] == b"payments"
    assert sum(found.offset for found in ends.values()) >= PAYMENTS + LETTERS


def every_page_fits_a_phone(scene: Scene) -> None:
    for path in PAGES:
        with scene.visitor.at(path, width=PHONE, theme="dark") as page:
            expect(page.locator(".main h1")).to_be_visible()
            expect(page.get_by_text("Asking the cluster")).to_have_count(0)
            assert page.evaluate("document.documentElement.scrollWidth") <= PHONE, path
            assert page.locator(".notice.bad").count() == 0, (path, page.locator(".notice.bad").all_inner_texts())


def the_keyboard_reaches_everything(scene: Scene) -> None:
    with scene.visitor.at("/") as page:
        expect(page.locator(".broker")).to_have_count(3)
        page.keyboard.press("Tab")
        assert page.evaluate("document.activeElement.textContent") == "Skip to the page"
        page.keyboard.press("?")
        expect(page.locator("dialog.help")).to_be_visible()
        page.keyboard.press("Escape")
        page.keyboard.press("d")
        expect(page.locator("html")).to_have_attribute("data-theme", "dark")
        page.keyboard.press("g")
        page.keyboard.press("t")
        expect(page.locator("h1")).to_have_text("Topics")
        expect(page.locator("html")).to_have_attribute("data-theme", "dark")
        expect(page.locator("tbody tr").first).to_be_visible()
        page.keyboard.press("j")
        page.keyboard.press("Enter")
        expect(page.locator("h1")).to_contain_text("customers")


def what_is_not_there_is_told(scene: Scene) -> None:
    with scene.visitor.at("/topics/nope/messages") as page:
        expect(page.get_by_role("alert")).to_contain_text("There is no topic nope.")
    with scene.visitor.at("/nowhere") as page:
        expect(page.locator(".empty")).to_have_text("There is no page /nowhere.")


def the_gateway_serves_it_too(scene: Scene) -> None:
    with ConsoleProcess(scene.directory, scene.bootstrap, "gateway", "--http-port", "0", path="/console") as gateway:
        with urlopen(f"{gateway.url}/topics/orders", timeout=LOADED_WITHIN_S) as answer:
            assert b'"orders"' in answer.read()
        visitor = Visitor(scene.visitor._browser, gateway.url)
        with visitor.at("/console") as page:
            page.get_by_role("link", name="Topics").click()
            page.get_by_role("link", name="orders", exact=True).click()
            expect(page.locator(".panel tbody tr")).to_have_count(6)
            assert page.url == f"{gateway.url}/console/topics/orders"
        assert visitor.problems == []


def nothing_went_wrong_in_the_browser(scene: Scene) -> None:
    assert scene.visitor.problems == []


def a_broker_that_is_gone_is_seen(scene: Scene) -> None:
    with scene.visitor.at("/") as page:
        expect(page.locator(".broker.down")).to_have_count(0)
        scene.cluster.nodes[2].kill()
        expect(page.locator(".broker.down")).to_have_count(1)
        expect(page.locator(".notice.warn")).to_contain_text("Fewer replicas in sync")
        assert figure(page, "Without leader") == "0"


PARTS: tuple[Callable[[Scene], None], ...] = (
    the_cluster_has_its_racks_brokers_and_partitions,
    topics_have_true_figures,
    configs_tell_what_was_set_for_the_topic,
    messages_are_browsed_newest_first_with_json_set_out,
    messages_are_found_by_text_key_header_and_place_in_json,
    any_offset_and_any_time_can_be_gone_to,
    what_the_form_writes_is_read_by_a_kafka_client,
    what_can_not_be_written_is_told,
    the_live_tail_shows_what_a_kafka_client_writes,
    groups_have_true_lag_and_the_reason_for_it,
    open_transactions_are_listed,
    the_plan_says_whether_anything_should_move,
    dead_letters_are_sent_back,
    every_page_fits_a_phone,
    the_keyboard_reaches_everything,
    what_is_not_there_is_told,
    the_gateway_serves_it_too,
    nothing_went_wrong_in_the_browser,
    a_broker_that_is_gone_is_seen,
)
