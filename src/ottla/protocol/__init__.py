"""Bytes from and to Kafka's protocol, and nothing else: no I/O, no clock, no state.

`messages/` holds one table per API, with all its versions; `schema` is the language of these tables; `codec` turns a
table into functions, one pair per version. `framing` knows headers and frames, `records` and `compression` know what is
inside a record batch.

What this package promises: bytes that come from a peer either become a message or raise `ProtocolError`. No length is
believed before it is compared with the bytes that are left.
"""
