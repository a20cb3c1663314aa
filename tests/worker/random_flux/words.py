"""The tokenizers of the random FLUX, made in code from a short list of words that prompts often hold."""

from __future__ import annotations

from worker.libraries import CLIPTokenizer, T5TokenizerFast
from worker.playground import text
from worker.playground.text import T5_TOKENS

_KNOWN = (
    "a an and at autumn bear big bird black blue boat bottle bridge brown building by cat castle child city cloud "
    "clouds cold dark dawn day desert detailed dog dragon drawing evening face field fire fish flower flowers fog "
    "forest fox garden ghost glass gold golden gray green hill horse house ice in island lake lamp light lighthouse "
    "little long man market mirror mist moon morning mountain mountains night oil old on orange over owl painting "
    "paper path pencil photo pink portrait purple rain red river road robot room rose sea ship silver sketch sky small "
    "snow spring stars stone storm street style summer sun sunset table tea temple the tower town train tree trees "
    "under village violet walking warm water watercolor wave waves white wind window winter with woman wood yellow of"
)
WORDS = _KNOWN.split()


def clip_tokenizer() -> CLIPTokenizer:
    """Byte-level BPE that knows ``WORDS`` whole and spells everything else."""
    return text.clip_tokenizer(WORDS)


def t5_tokenizer() -> T5TokenizerFast:
    """Unigram pieces: ``WORDS`` whole, printable ASCII letter by letter, the rest unknown."""
    letters = [chr(code) for code in range(33, 127)]
    pieces = [("<pad>", 0.0), ("</s>", 0.0), ("<unk>", 0.0), ("▁", -4.0)]
    pieces += [("▁" + word, -2.0) for word in dict.fromkeys(WORDS) if len(word) > 1]
    pieces += [("▁a", -2.0)] + [(letter, -8.0) for letter in letters]
    return T5TokenizerFast(vocab=pieces, extra_ids=0, model_max_length=T5_TOKENS)
