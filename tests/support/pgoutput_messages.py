"""Messages of pgoutput as a server sends them, and ways to damage them."""

from collections.abc import Callable, Iterable, Sequence
from random import Random

from cdc_outbox.databases.pgoutput import keepalive_frame, wal_frame

OID = 16_384
Values = Sequence[bytes | None]


def begin(commit_lsn: int, xid: int = 7) -> bytes:
    return b"B" + commit_lsn.to_bytes(8) + bytes(8) + xid.to_bytes(4)


def commit(lsn: int, end_lsn: int) -> bytes:
    return b"C\0" + lsn.to_bytes(8) + end_lsn.to_bytes(8) + bytes(8)


def origin(name: bytes) -> bytes:
    return b"O" + bytes(8) + name + b"\0"


def relation(columns: Iterable[str], oid: int = OID, schema: str = "public", name: str = "outbox") -> bytes:
    described = [b"\1" + column.encode() + b"\0" + (25).to_bytes(4) + b"\xff\xff\xff\xff" for column in columns]
    head = b"R" + oid.to_bytes(4) + schema.encode() + b"\0" + name.encode() + b"\0d"
    return head + len(described).to_bytes(2) + b"".join(described)


def type_name(oid: int, name: str) -> bytes:
    return b"Y" + oid.to_bytes(4) + b"public\0" + name.encode() + b"\0"


def row(values: Values) -> bytes:
    columns = (b"n" if value is None else b"t" + len(value).to_bytes(4) + value for value in values)
    return len(values).to_bytes(2) + b"".join(columns)


def insert(values: Values, oid: int = OID) -> bytes:
    return b"I" + oid.to_bytes(4) + b"N" + row(values)


def update(values: Values, old: Values | None = None, oid: int = OID) -> bytes:
    return b"U" + oid.to_bytes(4) + (b"" if old is None else b"O" + row(old)) + b"N" + row(values)


def delete(values: Values, oid: int = OID) -> bytes:
    return b"D" + oid.to_bytes(4) + b"K" + row(values)


def truncate(*oids: int) -> bytes:
    return b"T" + len(oids).to_bytes(4) + b"\0" + b"".join(oid.to_bytes(4) for oid in oids)


def logical_message(prefix: str, content: bytes, *, is_transactional: bool = True) -> bytes:
    flags = b"\1" if is_transactional else b"\0"
    return b"M" + flags + (2**40).to_bytes(8) + prefix.encode() + b"\0" + len(content).to_bytes(4) + content


def random_value(random: Random) -> bytes | None:
    return random.choice((None, b"", b"1", b"order", random.randbytes(random.choice((1, 40, 300)))))


def random_message(random: Random) -> bytes:
    """Return a valid message of any kind."""

    def values() -> list[bytes | None]:
        return [random_value(random) for _ in range(random.choice((0, 1, 5, 10)))]

    kinds: Sequence[Callable[[], bytes]] = (
        lambda: begin(random.getrandbits(48)),
        lambda: commit(random.getrandbits(48), random.getrandbits(48)),
        lambda: origin(b"other"),
        lambda: relation(["id", "aggregatetype", "payload"][: random.randrange(4)]),
        lambda: type_name(random.getrandbits(20), "mood"),
        lambda: insert(values()),
        lambda: update(values(), random.choice((None, values()))),
        lambda: delete(values()),
        lambda: truncate(*range(random.randrange(3))),
        lambda: logical_message("outbox", b"{}", is_transactional=random.random() < 0.5),
    )
    return random.choice(kinds)()


def random_stream(random: Random) -> list[bytes]:
    """Return frames of valid transactions, with keepalives between and within them."""
    frames, lsn = [], 1_000
    for _ in range(random.randrange(1, 4)):
        end = lsn + 50
        rows = [insert([random_value(random) for _ in range(3)]) for _ in range(random.randrange(4))]
        others = [update([b"1"] * 3), delete([b"1", None, None]), truncate(OID), logical_message("a", b"b")]
        inner = [*rows, *random.sample(others, random.randrange(2))]
        columns = relation(["id", "aggregatetype", "payload"])
        messages = [begin(lsn), columns, *inner, commit(lsn, end)]
        frames += [wal_frame(message) for message in messages]
        if random.random() < 0.5:
            frames.insert(random.randrange(len(frames) + 1), keepalive_frame(lsn - random.randrange(100)))
        lsn = end + random.randrange(100)
    return frames


_LENGTHS = (0, 1, 2**31 - 1, 2**31, 2**32 - 1)


def damaged(data: bytes, random: Random) -> bytes:
    """Return a message or frame in which something was changed, cut off or put in."""
    changed = bytearray(data)
    for _ in range(random.choice((1, 1, 1, 2, 5))):
        at = random.randrange(len(changed) + 1)
        match random.randrange(8):
            case 0:
                del changed[at:]
            case 1:
                changed[at:at] = random.randbytes(random.choice((1, 4, 40)))
            case 2:
                changed[at : at + 4] = random.choice(_LENGTHS).to_bytes(4)
            case 3:
                changed[at : at + 2] = random.choice((0, 0xFFFF)).to_bytes(2)
            case 4:
                del changed[at : at + random.choice((1, 2, 8))]
            case 5:
                changed[:1] = random.choice(b"BCORYIUDTMwkLSAr\0\xff").to_bytes()
            case 6:
                changed += changed[at:]
            case _:
                changed[at : at + 1] = random.randbytes(1)
    return bytes(changed)
