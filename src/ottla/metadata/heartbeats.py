"""Brokers in and out of service: heartbeats let them in and out, silence puts them out.

    fenced ──(asks, and has caught up)──▶ in service ──(wants to stop, leads something)──▶ shutting down ──▶ fenced
                                              └──(asks; or is silent for too long)──▶ fenced

A broker that shuts down may go once it leads nothing and every other broker in service knows that: until then it tells
clients who leads instead.
"""

from collections.abc import Sequence

from ottla.metadata import leadership
from ottla.metadata.brokers import require_epoch
from ottla.metadata.deciding import Deciding
from ottla.metadata.image import BrokerImage, MetadataImage
from ottla.metadata.records import MetadataRecord
from ottla.metadata.sessions import Session, Sessions
from ottla.metadata.state import FENCE, UNFENCE
from ottla.protocol.messages.broker_heartbeat import BrokerHeartbeatRequest, BrokerHeartbeatResponse
from ottla.protocol.messages.metadata_records import BrokerRegistrationChangeRecord
from ottla.replicated import Result

Answer = Result[MetadataRecord, BrokerHeartbeatResponse]


def heartbeat(
    deciding: Deciding, sessions: Sessions, request: BrokerHeartbeatRequest, now_ms: int, offset: int
) -> Answer:
    """`offset` is where the records will be in the metadata log."""
    broker = require_epoch(deciding.image, request.broker_id, request.broker_epoch)
    session = sessions.heard(broker.broker_id, now_ms, request.current_metadata_offset)
    if broker.fenced:
        return _of_fenced(deciding, broker, session, request)
    if request.want_fence:
        return _fenced(deciding, broker, session, may_stop=request.want_shut_down)
    if broker.in_controlled_shutdown or request.want_shut_down:
        return _of_stopping(deciding, broker, session, sessions, offset)
    return Result(response=_response(session, fenced=False))


def _of_fenced(deciding: Deciding, broker: BrokerImage, session: Session, request: BrokerHeartbeatRequest) -> Answer:
    """Who is fenced may stop at once. Who was stopping and is fenced comes back by a registration only."""
    if request.want_shut_down:
        return Result(response=_response(session, fenced=True, may_stop=True))
    if request.want_fence or not session.is_caught_up or broker.in_controlled_shutdown:
        return Result(response=_response(session, fenced=True))
    unfence = BrokerRegistrationChangeRecord(
        broker_id=broker.broker_id, broker_epoch=broker.broker_epoch, fenced=UNFENCE
    )
    elections = leadership.with_arrival(deciding, broker.broker_id)
    return Result(records=[unfence, *elections], response=_response(session, fenced=False))


def _of_stopping(deciding: Deciding, broker: BrokerImage, session: Session, sessions: Sessions, offset: int) -> Answer:
    if deciding.holdings.shared_led_by(broker.broker_id):
        session.shutdown_offset = offset
        return _let_go(deciding, broker, session)
    if session.shutdown_offset is None and broker.in_controlled_shutdown:
        session.shutdown_offset = offset - 1
    others = [id_ for id_ in _in_service(deciding.image) if id_ != broker.broker_id]
    lowest = sessions.lowest_offset(others)
    if session.shutdown_offset is None or lowest is None or lowest >= session.shutdown_offset:
        return _fenced(deciding, broker, session, may_stop=True)
    return Result(response=_response(session, fenced=False))


def _let_go(deciding: Deciding, broker: BrokerImage, session: Session) -> Answer:
    """Others lead, as far as others can."""
    records: list[MetadataRecord] = []
    if not broker.in_controlled_shutdown:
        records.append(
            BrokerRegistrationChangeRecord(
                broker_id=broker.broker_id, broker_epoch=broker.broker_epoch, in_controlled_shutdown=1
            )
        )
    records += leadership.without(deciding, [broker.broker_id])
    return Result(records=records, response=_response(session, fenced=False))


def _fenced(deciding: Deciding, broker: BrokerImage, session: Session, *, may_stop: bool) -> Answer:
    records, done = fence(deciding, [broker])
    return Result(records=records, response=_response(session, fenced=done, may_stop=done and may_stop))


def _in_service(image: MetadataImage) -> list[int]:
    return [broker.broker_id for broker in image.brokers.values() if broker.is_active]


def _response(session: Session, *, fenced: bool, may_stop: bool = False) -> BrokerHeartbeatResponse:
    return BrokerHeartbeatResponse(is_caught_up=session.is_caught_up, is_fenced=fenced, should_shut_down=may_stop)


def fence(deciding: Deciding, brokers: Sequence[BrokerImage]) -> tuple[list[MetadataRecord], bool]:
    """What the brokers led is led by others, and then they are fenced; or some of it, if that is all that fits one
    decision, and they are not fenced yet. The records, and whether that is all."""
    records = leadership.without(deciding, [broker.broker_id for broker in brokers])
    if not leadership.is_whole(records):
        return records, False
    records += [
        BrokerRegistrationChangeRecord(broker_id=broker.broker_id, broker_epoch=broker.broker_epoch, fenced=FENCE)
        for broker in brokers
    ]
    return records, True


def fence_silent(deciding: Deciding, sessions: Sessions, now_ms: int) -> list[MetadataRecord]:
    """Whoever should have been heard from by now. All of them at once: none of them shall lead in place of another."""
    silent: list[BrokerImage] = []
    for broker_id in sessions.lapsed(now_ms):
        broker = deciding.image.brokers.get(broker_id)
        if broker is None or broker.fenced:
            sessions.end(broker_id)
        else:
            silent.append(broker)
    return fence(deciding, silent)[0] if silent else _let_go_of_fenced(deciding)


def _let_go_of_fenced(deciding: Deciding) -> list[MetadataRecord]:
    """A partition with one replica keeps its leader while that is away; not when it is to have other replicas too."""
    fenced = [
        broker.broker_id
        for broker in deciding.image.brokers.values()
        if broker.fenced and deciding.holdings.shared_in_sync_at(broker.broker_id)
    ]
    return leadership.without(deciding, fenced) if fenced else []
