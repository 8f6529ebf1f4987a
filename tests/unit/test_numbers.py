"""What a topic holds of an aggregate, whatever the order in which it came: a set of numbers in little room."""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from cdc_outbox.operations.reconciliation import Numbers, count, fingerprint, without, written

SEQUENCES = st.lists(st.integers(1, 30) | st.just(2**63 - 1), max_size=40)


def numbers_of(sequences: list[int]) -> Numbers:
    numbers = Numbers()
    for sequence in sequences:
        numbers.add(sequence, sequence % 2**32)
    return numbers


def flat(spans: list[tuple[int, int]]) -> list[int]:
    return [number for first, last in spans for number in range(first, last + 1)]


@given(SEQUENCES)
def test_it_is_the_set_of_what_came(sequences: list[int]) -> None:
    numbers = numbers_of(sequences)
    assert flat(list(numbers.spans())) == sorted(set(sequences))
    assert len(numbers) == len(set(sequences))
    assert (numbers.first, numbers.last) == (min(sequences, default=0), max(sequences, default=0))
    assert all(number in numbers for number in sequences)
    assert all(first > before + 1 for (_, before), (first, _) in pairwise(numbers.spans()))


@given(SEQUENCES, st.integers(0, 40), st.integers(0, 40))
def test_what_is_absent_and_what_is_there_make_the_whole(sequences: list[int], after: int, until: int) -> None:
    numbers, wanted = numbers_of(sequences), range(after + 1, until + 1)
    absent, there = flat(numbers.absent(wanted)), flat(numbers.between(after, until))
    assert sorted(absent + there) == list(wanted)
    assert count(numbers.absent(wanted)) == len(absent)


@given(st.lists(st.tuples(st.integers(1, 10), st.sampled_from("abc")), max_size=40))
def test_the_first_id_of_a_number_stays(events: list[tuple[int, str]]) -> None:
    numbers, first = Numbers(), dict[int, int]()
    for sequence, event_id in events:
        own = fingerprint(event_id)
        assert numbers.add(sequence, own) == first.setdefault(sequence, own)
    assert {number: numbers.get(number) for number in first} == first


@given(SEQUENCES, st.lists(st.integers(1, 30), unique=True))
def test_numbers_can_be_taken_out_of_spans(sequences: list[int], taken: list[int]) -> None:
    spans = list(numbers_of(sequences).spans())
    left = without(spans, taken)
    assert flat([span for span in left if span[0] <= 30]) == sorted(set(sequences) - set(taken) - {2**63 - 1})


def test_spans_are_written_as_a_person_writes_them() -> None:
    assert written([(1, 1), (3, 5), (7, 7), (9, 1_010)]) == "1, 3 to 5, 7 and 1,002 more"


def test_numbers_in_a_row_take_four_bytes_each() -> None:
    numbers = numbers_of(list(range(500, 10_500)))
    assert numbers._row.itemsize * len(numbers._row) == 40_000
    assert not numbers._odd
