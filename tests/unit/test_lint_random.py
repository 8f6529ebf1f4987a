"""A hundred of the texts of which `infra/fuzz lint` takes fifty thousand, the same ones in each run."""

from fuzz.lint import explore, read_texts, report


def test_random_texts_give_findings_and_nothing_else() -> None:
    counts = explore(100, adopts=False, repeats=True)
    assert counts.total() >= 100
    assert counts["found something"] > 10
    assert counts["refused"] > 10
    assert f"{counts.total():,} texts" in report(counts)


def test_what_is_adopted_of_random_texts_is_a_spec_with_every_difference_told() -> None:
    assert explore(15, drawn=read_texts, repeats=True)["found something"] > 3
