import tomllib

from hypothesis import given
from hypothesis import strategies as st

from cronhare.adapters.toml_writing import Value, write_table

TEXT = st.text(alphabet=st.characters(exclude_categories=["Cs"]))
VALUE = st.one_of(
    TEXT,
    st.booleans(),
    st.integers(-(2**63), 2**63 - 1),
    st.lists(TEXT).map(tuple),
    st.dictionaries(TEXT, TEXT),
)


@given(path=st.lists(TEXT, min_size=1, max_size=3), values=st.dictionaries(TEXT, VALUE))
def test_what_is_written_reads_back(path: list[str], values: dict[str, Value]) -> None:
    written = write_table(tuple(path), values)

    read = tomllib.loads(written)
    for part in path:
        read = read[part]
    assert read == {
        key: list(value) if isinstance(value, tuple) else value for key, value in values.items()
    }
