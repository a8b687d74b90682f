"""What the grammars of the three formats allow, for tests of properties."""

from __future__ import annotations

from hypothesis import settings
from hypothesis import strategies as st

from formats import hrf, jcf, wir

#: The same examples every time, so that a red test is red for everybody.
PROPERTY = settings(deadline=None, max_examples=150, derandomize=True, database=None)

any_text = st.text(st.characters(exclude_categories=["Cs"]), max_size=60)
line_text = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\r\n"), max_size=60)
quotable = st.text(st.characters(exclude_categories=["Cs"], exclude_characters='\r\n\t"'), max_size=60)

jcf_names = st.from_regex(r"[A-Z][A-Z0-9]{0,12}", fullmatch=True) | st.sampled_from(sorted(jcf.PARAMETERS))


@st.composite
def jobs(draw: st.DrawFn) -> jcf.Job:
    """Every line that JCF can hold."""
    names = draw(st.lists(jcf_names, min_size=1, max_size=12, unique=True))
    return jcf.Job({name: draw(any_text if name in jcf.ENCODED else quotable) for name in names})


times = st.datetimes().map(
    lambda when: f"{when:%Y}".rjust(4, "0") + f"{when:-%m-%dT%H:%M:%S}.{when.microsecond // 1000:03}Z"
)
extras = st.lists(
    st.tuples(
        st.from_regex(r"[A-Za-z][A-Za-z0-9-]{0,12}", fullmatch=True).filter(lambda name: name not in hrf.HEAD),
        line_text,
    ),
    max_size=4,
).map(tuple)


@st.composite
def harvests(draw: st.DrawFn) -> hrf.Harvest:
    """Every record that HRF can hold, small."""
    return hrf.Harvest(
        job=draw(jobs()),
        outcome=draw(st.sampled_from(sorted(hrf.OUTCOMES))),
        fetched=draw(times),
        protocol=draw(line_text),
        elapsed_ms=draw(st.integers(0, hrf.NUMBERS["Elapsed-Ms"])),
        peer=draw(line_text),
        digest=draw(line_text),
        robots=draw(line_text),
        truncated=draw(st.sampled_from(sorted(hrf.TRUNCATIONS))),
        request=draw(st.binary(max_size=80)),
        header=draw(st.binary(max_size=80)),
        body=draw(st.binary(max_size=200)),
        extra=draw(extras),
    )


@st.composite
def wir_pairs(draw: st.DrawFn) -> list[tuple[str, str]]:
    """Names and values in any order, with anything in the values that a page can bring."""
    anything = st.text(max_size=60)
    pairs: list[tuple[str, str]] = []
    for name in draw(st.lists(st.sampled_from(sorted(wir.FIELDS)), unique=True, max_size=12)):
        known = wir.FIELDS[name]
        for _ in range(draw(st.integers(1, 3)) if known.repeats else 1):
            value = wir.join(draw(anything) for _ in known.columns) if known.columns else draw(anything)
            pairs.append((name, value))
    unknown = st.from_regex(r"x_[a-z0-9_]{0,10}", fullmatch=True)
    pairs.extend(draw(st.lists(st.tuples(unknown, anything), max_size=3)))
    return draw(st.permutations(pairs))
