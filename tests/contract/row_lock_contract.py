"""What the writer promises beside its contract where a database locks rows, and not the whole file."""

import threading
from contextlib import closing
from dataclasses import replace
from typing import ClassVar

import pytest

from cdc_outbox import TransactionConflictError
from tests.contract.writer_contract import WriterContract
from tests.contract.writer_errors_contract import WriterErrorsContract
from tests.support.patience import patience
from tests.support.threads import Threads
from tests.support.writer_clients import ORDER, Client, Store


class RowLockContract(WriterErrorsContract, WriterContract):
    """What holds beside that where a writer locks a row; SQLite locks the whole database, and knows one level."""

    conflicts_when_repeatable: ClassVar[bool]
    """Whether the second of two writers of one aggregate fails under REPEATABLE READ, instead of numbering on."""

    def test_writers_of_one_aggregate_wait_and_of_others_do_not(self, client: Client, store: Store) -> None:
        client.add()
        with closing(self.open(store)) as other, Threads(1) as pool:
            assert other.add(replace(ORDER, aggregate_id="43")).sequence == 1
            other.commit()
            waiting = pool.submit(other.add)
            assert not threading.Event().wait(0.3)
            assert not waiting.done()
            client.commit()
            assert waiting.result(patience()).sequence == 2
            other.commit()
        assert store.numbers() == [("42", 1), ("42", 2), ("43", 1)]

    @pytest.mark.parametrize("level", ["read committed", "repeatable read", "serializable"])
    def test_isolation_decides_whether_the_second_writer_goes_on(self, store: Store, level: str) -> None:
        with closing(self.open(store)) as first, closing(self.open(store)) as second:
            self.set_isolation(second, level)
            second.execute("select 1 from customers")  # its snapshot is taken
            first.add()
            first.commit()
            if self.conflicts_when_repeatable and level != "read committed":
                with pytest.raises(TransactionConflictError, match=r"(?i)serializ|changed since last read"):
                    second.add()
                second.rollback()
            assert second.add().sequence == 2
            second.commit()
        assert store.numbers() == [("42", 1), ("42", 2)]

    def set_isolation(self, client: Client, level: str) -> None:
        client.execute(f"set transaction isolation level {level}")
