"""The console in front of a real Apache Kafka."""

from pathlib import Path

import pytest
from bench.servers import Kafka
from playwright.sync_api import expect

from ottla.client.admin import Admin
from ottla.client.producer import Producer
from tests.console.browser import Visitor, figure, row, started_browser
from tests.console.rig import ConsoleProcess, committed, until
from tests.console.test_in_browser import read_one

pytestmark = [pytest.mark.interop, pytest.mark.timeout(600)]

RECORDS = 30


def test_every_page_shows_apache_kafka(tmp_path: Path) -> None:
    server = Kafka(tmp_path / "server", durable=False)
    server.start()
    try:
        tell(server.bootstrap)
        with (
            ConsoleProcess(tmp_path, server.bootstrap, "console", "--port", "0") as console,
            started_browser() as browser,
        ):
            visitor = Visitor(browser, console.url)
            look_at_all(visitor)
            write_one(visitor, server.bootstrap)
            assert visitor.problems == []
            assert "Traceback" not in console.log()
    finally:
        server.stop()


def tell(bootstrap: str) -> None:
    with Admin(bootstrap_servers=bootstrap) as admin:
        admin.create_topic("orders", partitions=3, replication_factor=1)
        with Producer(bootstrap_servers=bootstrap) as producer:
            for number in range(RECORDS):
                producer.send("orders", {"order": number}, f"user-{number}", partition=number % 3)
        until(lambda: committed(admin, "billing", {("orders", 0): 4}), "the group has a coordinator")


def look_at_all(visitor: Visitor) -> None:
    with visitor.at("/") as page:
        assert figure(page, "Brokers") == "1"
        assert figure(page, "Topics") == "1"
    with visitor.at("/topics") as page:
        assert row(page, "orders")[:4] == ["orders", "3", "1", str(RECORDS)]
    with visitor.at("/topics/orders/messages?query=$.order:7") as page:
        expect(page.locator(".msg")).to_have_count(1)
    with visitor.at("/groups/billing") as page:
        expect(page.locator(".notice")).to_contain_text("Nobody reads")
        assert row(page, "orders-0")[1:4] == ["4", "10", "6"]
    with visitor.at("/transactions") as page:
        expect(page.locator(".empty")).to_have_text("No transaction is open.")
    with visitor.at("/letters") as page:
        expect(page.locator(".empty")).to_contain_text("No topic has dead letters")
    with visitor.at("/plan") as page:
        expect(page.locator(".notice.good")).to_contain_text("Nothing has to move")
    with visitor.at("/topics/orders/configs") as page:
        expect(page.get_by_text("retention.ms", exact=True)).to_be_visible()


def write_one(visitor: Visitor, bootstrap: str) -> None:
    with visitor.at("/topics/orders/produce") as page:
        page.get_by_label("Value", exact=True).fill("from the console")
        page.get_by_label("Partition", exact=True).fill("2")
        page.get_by_role("button", name="Write").click()
        expect(page.locator(".notice.good")).to_contain_text("Written to orders-2 at offset 10.")
    assert read_one(bootstrap, "orders", 2, 10).value() == b"from the console"
