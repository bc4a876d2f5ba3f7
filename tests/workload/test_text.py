"""Text: exactly as long as wanted, ordinary, and never the same beginning twice."""

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headcount.workload import english, korean
from headcount.workload.korean import with_particle
from headcount.workload.text import LANGUAGES, language_of, opening, size, spell, write

languages = st.sampled_from(list(LANGUAGES))


@given(language=languages, words=st.integers(1, 400), seed=st.integers(0, 2**32), ask=st.booleans())
def test_texts_have_the_wanted_number_of_words(language: str, words: int, seed: int, ask: bool) -> None:
    """Whatever the length, with or without a request for a long answer."""
    spoken = LANGUAGES[language]
    text = write(spoken, words, Random(seed), opening(spoken, seed, 0), ask)

    assert len(text.split()) == words
    assert text == " ".join(text.split())


@given(language=languages, words=st.integers(12, 400), seed=st.integers(0, 2**32))
def test_texts_ask_for_a_long_answer(language: str, words: int, seed: int) -> None:
    """The request stands at the end, where models heed it, and never fills more than half of the text."""
    spoken = LANGUAGES[language]
    text = write(spoken, words, Random(seed))
    ask = next(ask for ask in spoken.asks if text.endswith(ask))

    assert 2 * len(ask.split()) <= words


@given(
    language=languages,
    offset=st.integers(0, 2**64 - 1),
    numbers=st.lists(st.integers(0, 2**48 - 1), unique=True, min_size=2, max_size=20),
)
def test_openings_of_one_stream_all_differ(language: str, offset: int, numbers: list[int]) -> None:
    """Different numbers of one stream have different openings: not likely, always."""
    spoken = LANGUAGES[language]

    assert len({opening(spoken, number, offset) for number in numbers}) == len(numbers)


@pytest.mark.parametrize("language", LANGUAGES)
def test_there_are_enough_openings(language: str) -> None:
    """More than 2**48 of them, so that of a million conversations in ten streams two share one with a chance below
    1 %; their first two words alone are more than 10,000, their first words more than 100."""
    pattern = LANGUAGES[language].opening

    assert size(pattern) > 2**48
    assert len(pattern[0]) > 100
    assert len(pattern[0]) * len(pattern[1]) > 10_000


@given(language=languages, offset=st.integers(0, 2**64 - 1), first=st.integers(0, 2**20))
def test_neighbours_begin_with_different_words(language: str, offset: int, first: int) -> None:
    """Of 100 people with consecutive numbers no two begin with the same word."""
    spoken = LANGUAGES[language]

    assert len({opening(spoken, first + i, offset).split()[0] for i in range(100)}) == 100


@pytest.mark.parametrize("language", LANGUAGES)
def test_patterns_are_spelled_one_to_one(language: str) -> None:
    """No slot holds the same words twice, so that different numbers are different sentences."""
    spoken = LANGUAGES[language]
    for pattern in (spoken.opening, *spoken.sentences):
        assert all(len(slot) == len(set(slot)) for slot in pattern)
        assert spell(pattern, 0) != spell(pattern, size(pattern) - 1)


@pytest.mark.parametrize("words", [english, korean])
def test_words_are_several_hundred_and_clean(words: object) -> None:
    """Each language has its own several hundred words, and each list each of them once."""
    lists = [value for name, value in vars(words).items() if name.isupper() and name.startswith("_")]
    lists = [found for found in lists if isinstance(found, tuple)]

    assert sum(map(len, lists)) > 600
    assert all(len(found) == len(set(found)) for found in lists)


def test_particles_follow_the_last_syllable() -> None:
    """Korean particles depend on whether a noun ends in a consonant."""
    assert with_particle("우산", "을", "를") == "우산을"
    assert with_particle("지도", "을", "를") == "지도를"
    for slot in korean.OPENING[3:4]:
        assert all(word.endswith(("을", "를")) for word in slot)


@pytest.mark.parametrize("language", LANGUAGES)
def test_languages_are_recognised(language: str) -> None:
    """Real data in either language is told apart by its letters."""
    spoken = LANGUAGES[language]

    assert all(language_of(write(spoken, 30, Random(seed))) == language for seed in range(20))
    assert language_of("") == "english"


@pytest.mark.parametrize("language", LANGUAGES)
def test_words_vary_as_words_do(language: str) -> None:
    """A long text uses several hundred different words, none of them more than a fifth of it."""
    words = write(LANGUAGES[language], 5000, Random(1)).split()

    assert len(set(words)) > 400
    assert max(map(words.count, set(words))) < len(words) / 5
