"""Ordinary English words and the patterns that make sentences of them. Data only."""

from __future__ import annotations

__all__ = ["ASKS", "OPENING", "SENTENCES", "TOKENS_PER_WORD"]

TOKENS_PER_WORD = 1.25
"""Of today's large vocabularies, before the server's own count is known."""


def _words(text: str) -> tuple[str, ...]:
    return tuple(text.split())


_ADJECTIVES = _words("""
    amber ancient awkward bitter blue bold brave brief bright broad broken brown calm careful careless cheap clean
    clever clumsy cold common copper cosy crisp curious curved dark deep delicate distant dry dusty early eager
    empty expensive faint famous fancy fast favorite fearless final flat foreign formal forgotten fragile free
    fresh friendly gentle giant golden grateful gray green grumpy handmade happy heavy helpful hidden hollow
    honest humble hungry idle impatient invisible jolly kind large late lazy light little local lonely loud lucky
    marble mild modern muddy narrow neat nervous new noisy odd old ordinary pale patient peaceful plain polite
    proud purple quick quiet rare red restless rough round rusty sad secret serious shallow sharp shiny shy silent
    silver simple sleepy slow small smooth soft strange strong sunny sweet tall tame thick thin tidy tiny tired
    useful warm weary wet white wild wise wooden yellow young
""")
_THINGS = _words("""
    apple basket bell bicycle blanket boat book bottle bridge broom bucket button cabinet cable camera candle
    carpet cart castle chair clock cloud coat coin compass computer cookie cup curtain desk diary dictionary door
    drawer drum engine envelope farm feather fence field flower fountain garage garden gate ghost guitar hammer
    harbor hat helmet hotel house island jacket kettle key keyboard kitchen kite ladder lake lamp lantern letter
    lighthouse lock machine magnet map market medal melon mirror monument motor mountain museum napkin necklace
    needle newspaper notebook ocean office onion orange orchard oven package painting paper parcel pencil piano
    pillow pipe planet plate poem pocket poster potato printer puzzle radio railway recipe ribbon ring river road
    robot rocket roof rope rug sail sandwich school scooter screen sculpture shirt shovel signal sofa song spoon
    stage station statue stone story suitcase sweater table tablet teapot telescope temple tent ticket tool towel
    tower toy tractor train tree trumpet tunnel turtle umbrella uniform valley van vase village violin wagon wall
    wallet window workshop yacht
""")
_PEOPLE = _words("""
    actor artist aunt author baker banker barber builder captain carpenter chef child clerk coach collector cousin
    dancer dentist designer detective director doctor driver editor engineer farmer father firefighter fisherman
    friend gardener grandmother guard guest guide hunter inspector inventor journalist judge king lawyer librarian
    manager mayor mechanic merchant mother musician neighbor nurse officer owner painter photographer pilot
    plumber poet postman printer professor queen reporter sailor scientist secretary shepherd singer soldier
    student surgeon tailor teacher tourist trainer translator traveler uncle visitor waiter weaver writer
""")
_NAMES = _words("""
    Adam Alice Amir Anna Arthur Beatrice Ben Carla Carlos Charlotte Clara Daniel David Diana Edward Elena Emma
    Eric Felix Fiona Frank George Grace Hannah Harry Helen Henry Hugo Ida Irene Jack James Jane Jonas Julia Karen
    Kevin Laura Leo Linda Louis Lucy Maria Mark Martha Martin Max Mia Michael Nadia Nathan Nina Noah Nora Oliver
    Oscar Paul Peter Rachel Robert Rosa Ruth Samuel Sarah Simon Sofia Stella Teresa Thomas Tim Tom Victor Vera
    Walter William
""")
_VERBS = _words("""
    admired avoided borrowed bought broke built carried chased chose cleaned collected copied counted covered
    described designed discovered dropped emptied examined filled finished fixed followed forgot found guarded hid
    ignored improved inspected invented kept left lifted liked locked lost loved measured mended missed moved
    needed noticed offered opened ordered packed painted photographed placed planned polished praised protected
    pulled pushed remembered removed repaired replaced returned saved sent showed sketched sold solved stored
    studied swapped tested tied touched traded trusted turned used visited wanted washed watched weighed wrapped
""")
_ADVERBS = _words("""
    badly barely boldly bravely briefly calmly carefully cheaply cleverly daily eagerly easily finally firmly
    gently gladly happily honestly kindly lately loudly mostly nearly neatly nervously never often openly partly
    patiently politely promptly proudly quickly quietly rarely really recently sadly safely secretly silently
    simply slowly sometimes soon suddenly together twice usually warmly wisely
""")
_NUMBERS = _words("""
    two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen
    eighteen nineteen twenty thirty forty fifty sixty seventy eighty ninety
""")
_PLACES = tuple(f"{before} the {place}" for before in ("behind", "near", "beyond") for place in _THINGS[::8])
_TIMES = (
    "In the morning,", "Late at night,", "Last winter,", "Every summer,", "On Monday,", "After lunch,",
    "Before dinner,",
    "Years later,", "At first,", "In the end,", "During the storm,", "One evening,", "Since then,", "This week,",
    "Long ago,", "By accident,", "For some reason,", "As always,", "In spring,", "On the way home,",
)  # fmt: skip
_ENDS = (
    "in the rain.", "without a word.", "before sunrise.", "for a friend.", "by mistake.", "after school.",
    "with both hands.",
    "at the station.", "for the last time.", "on a busy street.", "under a cold sky.", "in front of everybody.",
    "for almost an hour.", "with great care.", "on the first floor.", "across the border.", "in a small town.",
    "between two meetings.", "during the holiday.", "at the end of the road.",
)  # fmt: skip

_Adjectives = tuple(map(str.capitalize, _ADJECTIVES))
_things_first = tuple(f"{thing}:" for thing in _THINGS)
_plural_ends = tuple(f"{thing}s." for thing in _THINGS)

OPENING = (
    _Adjectives,
    _THINGS,
    ("and",),
    _ADJECTIVES,
    _things_first,
    _NAMES,
    _VERBS,
    ("both",),
    _NUMBERS,
    ("times",),
    _ENDS,
)
"""How every conversation begins. The first words vary most: they are what a prefix cache sees first."""

SENTENCES = (
    (("The",), _ADJECTIVES, _PEOPLE, _VERBS, ("the",), _ADJECTIVES, _THINGS, _ENDS),
    (_TIMES, _NAMES, _ADVERBS, _VERBS, _NUMBERS, _ADJECTIVES, _plural_ends),
    (_NAMES, ("and the",), _PEOPLE, _VERBS, ("every",), _THINGS, _PLACES, ("and",), _ADVERBS, _VERBS, ("it",), _ENDS),
    (("Nobody",), _PLACES, _VERBS, ("the",), _THINGS, ("because the",), _PEOPLE, _ADVERBS, _VERBS, ("it.",)),
)

ASKS = (
    "Please write a long and detailed answer, explain every step, and do not stop early.",
    "Explain every step in a long and detailed answer.",
    "Answer at length, please.",
    "Explain fully.",
)
"""Requests for a long answer, the longest first."""
