"""NiceGUI with all pages: the only module that registers anything with it."""

from __future__ import annotations

from pathlib import Path

from fastapi import FastAPI, Request
from nicegui import app as nicegui_app
from nicegui import ui

from ottla.console.frame import Page
from ottla.console.markup import tag
from ottla.console.pages import cluster, groups, letters, messages, plan, produce, tail, topics, transactions
from ottla.console.site import Site
from ottla.http.api import Api

ASSETS = Path(__file__).parent / "assets"
RECONNECT_S = 10.0
HISTORY_LENGTH = 30
"""Updates kept for a tab whose connection broke off."""


def build(api: Api, bootstrap: str, path: str) -> FastAPI:
    """The application; its life (`router.lifespan_context`) has to be kept by whoever serves it."""
    app = FastAPI(docs_url=None, redoc_url=None, openapi_url=None)
    _register(Site(api, bootstrap))
    css, script = (ASSETS / "console.css").read_text(), (ASSETS / "console.js").read_text()
    ui.add_head_html(f"<style>{css}</style><script>{script}</script>", shared=True)
    nicegui_app.config.socket_io_js_transports = ["websocket"]
    ui.run_with(
        app,
        title="Ottla",
        favicon=(ASSETS / "favicon.svg").read_text(),
        language="en-US",
        mount_path=path,
        tailwind=False,
        binding_refresh_interval=None,
        reconnect_timeout=RECONNECT_S,
        message_history_length=HISTORY_LENGTH,
        show_welcome_message=False,
    )
    return app


def _register(site: Site) -> None:
    @ui.page("/")
    def _cluster() -> None:
        cluster.show(site)

    @ui.page("/topics")
    def _topics() -> None:
        topics.show_all(site)

    @ui.page("/topics/{topic}")
    def _topic(topic: str) -> None:
        topics.show(site, topic)

    @ui.page("/topics/{topic}/configs")
    def _configs(topic: str) -> None:
        topics.show_configs(site, topic)

    @ui.page("/topics/{topic}/messages")
    def _messages(topic: str, request: Request) -> None:
        messages.show(site, topic, request.query_params)

    @ui.page("/topics/{topic}/messages/{partition}/{offset}")
    def _message(topic: str, partition: int, offset: int) -> None:
        messages.show_one(site, topic, partition, offset)

    @ui.page("/topics/{topic}/tail")
    def _tail(topic: str) -> None:
        tail.show(site, topic)

    @ui.page("/topics/{topic}/produce")
    def _produce(topic: str) -> None:
        produce.show(site, topic)

    @ui.page("/groups")
    def _groups() -> None:
        groups.show_all(site)

    @ui.page("/groups/{group:path}")
    def _group(group: str) -> None:
        groups.show(site, group)

    @ui.page("/transactions")
    def _transactions() -> None:
        transactions.show(site)

    @ui.page("/letters")
    def _letters() -> None:
        letters.show_all(site)

    @ui.page("/letters/{topic}")
    def _letters_of(topic: str) -> None:
        letters.show(site, topic)

    @ui.page("/plan")
    def _plan() -> None:
        plan.show(site)

    @ui.page("/{rest:path}")
    def _nothing(rest: str) -> None:
        Page(site, "", "Not here").live(tag("p", f"There is no page /{rest}.", class_="empty"))
