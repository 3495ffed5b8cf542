"""What a decision leads to, gathered while it is being made."""

from typing import TypeVar

from ottla.groups.records import GroupRecord
from ottla.replicated import Reply, Result, Token

Response = TypeVar("Response")


class Effects:
    """Records to write and callers to answer. One per request or tick, handed down to whoever decides."""

    __slots__ = ("records", "replies")

    def __init__(self) -> None:
        self.records: list[GroupRecord] = []
        self.replies: list[Reply] = []

    def reply(self, token: Token, response: object) -> None:
        self.replies.append(Reply(token=token, response=response))

    def result(self, response: Response | None = None) -> Result[GroupRecord, Response]:
        return Result(records=self.records, response=response, replies=self.replies)

    def result_for(self, token: Token, kind: type[Response]) -> Result[GroupRecord, Response]:
        """The result of a request that may have answered its own caller along with others."""
        for at, reply in enumerate(self.replies):
            if reply.token is token and isinstance(reply.response, kind):
                del self.replies[at]
                return self.result(reply.response)
        return self.result()
