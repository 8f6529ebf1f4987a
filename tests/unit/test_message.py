"""Headers compare, iterate, hash and print like a tuple of pairs."""

import pickle

from cdc_outbox.message import Headers, Message

PAIRS = (("id", b"1"), ("größe", b""), ("traceparent", None), ("id", b"2"))


def test_headers_are_what_a_tuple_of_their_pairs_is() -> None:
    headers = Headers.of(PAIRS)
    assert headers == PAIRS
    assert list(PAIRS) == headers
    assert headers != PAIRS[1:]
    assert (len(headers), headers[1], headers[1:3], *headers) == (len(PAIRS), PAIRS[1], PAIRS[1:3], *PAIRS)
    assert (hash(headers), repr(headers)) == (hash(PAIRS), repr(PAIRS))
    assert pickle.loads(pickle.dumps(headers)) == PAIRS  # noqa: S301 - our own


def test_there_may_be_no_headers() -> None:
    assert Headers.of(()) == Headers() == ()
    assert Headers().size == 0


def test_a_messages_size_counts_bytes_of_names_and_values() -> None:
    message = Message(topic="orders", key=b"key", value=b"value", headers=PAIRS)
    assert message.size == len(b"key" + b"value" + b"id" + b"1" + "größe".encode() + b"traceparent" + b"id" + b"2")
    assert Message(topic="orders", key=None, value=None).size == 0
