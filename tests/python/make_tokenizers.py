"""Small tokenizers of every kind and what the `tokenizers` package makes of several hundred texts with them.

make_tokenizers.py OUT: writes OUT/NAME.json (the tokenizer) for each, OUT/texts.json, and OUT/NAME.pairs.json: for each
text its ids, what they decode to (null: the text itself), and that with special tokens (null: the same; of the first
120 alone). Needs the packages
tokenizers, sentencepiece and protobuf. Training takes equal scores in any order, so each run makes other vocabularies: commit
all of a run.
"""
import io
import json
import os
import random
import sys
import tempfile

import sentencepiece
from tokenizers import (AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors,
                        trainers)

WORDS = {
    "latin": "The quick brown fox jumps over the lazy dog don't can't we'll I'M THEY'RE naïve café Ångström straße İstanbul",
    "german": "Größere Häuser müssen länger geheizt werden als kleinere, sagte Jürgen über die Öfen.",
    "vietnamese": "Tiếng Việt là ngôn ngữ của người Việt và là ngôn ngữ chính thức tại Việt Nam",
    "greek": "Η γρήγορη καφέ αλεπού πηδάει πάνω από το τεμπέλικο σκυλί ΟΔΥΣΣΕΥΣ",
    "cyrillic": "Съешь же ещё этих мягких французских булок, да выпей чаю",
    "arabic": "نص حكيم له سر قاطع وذو شأن عظيم مكتوب على ثوب أخضر",
    "hebrew": "דג סקרן שט בים מאוכזב ולפתע מצא חברה",
    "devanagari": "ऋषियों को सताने वाले दुष्ट राक्षसों के राजा रावण का सर्वनाश करने वाले",
    "thai": "เป็นมนุษย์สุดประเสริฐเลิศคุณค่า กว่าบรรดาฝูงสัตว์เดรัจฉาน",
    "korean": "키스의 고유조건은 입술끼리 만나야 하고 특별한 기술은 필요치 않다",
    "japanese": "いろはにほへと ちりぬるを わかよたれそ つねならむ 東京タワー ｶﾀｶﾅ",
    "chinese": "我能吞下玻璃而不伤身体。天地玄黃，宇宙洪荒。日月盈昃",
    "code": "def f(x):\n    return x**2 + 3.14159  # comment\n\tif (a && b) { i++; }\r\n",
    "numbers": "0 1 12 123 1234 12345 3.14 1,000,000 ٣٤٥ Ⅷ ½ ² x² 10km",
    "emoji": "😀 👍🏽 👩‍👩‍👧‍👦 🇩🇪🇫🇷 ❤️ ☺ 1️⃣ 🏴󠁧󠁢󠁥󠁮󠁧󠁿",
    "georgian": "ჭკუა და სიმდიდრე თანამგზავრია",
    "tamil": "யாமறிந்த மொழிகளிலே தமிழ்மொழி போல்",
    "amharic": "ሰማይ አይታረስ ንጉሥ አይከሰስ።",
}
CORPUS = [line for line in WORDS.values() for _ in range(4)] + [w for line in WORDS.values() for w in line.split()] * 2


def texts():
    rng = random.Random(17)
    out = ["", " ", "  ", "\n", "\t", "\r\n", "a", " a", "a ", "  a  b  ", "\n\n\n", " \n \n", "x" * 300, " " * 200 + "y",
           "\u0000", "a\u0000b", "\u0001\u0002\u001f\u007f", "\u200b\u200c\u200d\u200e", "\ufeffbom", "\ufffd", "\ufffda",
           "e\u0301", "\u0301", "a\u0301\u0323\u0302", "\u1e9b\u0323", "ﬁne ﬂow", "①②③", "㍿", "ＦＵＬＬｗｉｄｔｈ", "½⅓",
           "\u00a0nbsp\u00a0", "\u2003em\u2009thin\u3000ideo", "\u0085nel", "\u2028ls\u2029ps", "\u180emvs",
           "한국", "\u1112\u1161\u11ab", "ﷺ", "Ǆǅǆ", "İIıi", "ΣΑΣ", "ß ẞ", "𝔘𝔫𝔦𝔠𝔬𝔡𝔢", "𠜎𠜱𠝹", "\U0010fffd", "\ue000",
           "[CLS]", "[SEP] x [MASK]", "a[MASK]b", " <s>", "<s> </s>", "x</s>", "<unk>", "<|endoftext|>", "a<|endoftext|>b",
           "<|endoftext|><|endoftext|>", "  <mask>  z", "hello <word> there", "a<word>b", "Thing thing THING", "<0x41>",
           "<0xFF><0x41>", "▁", "▁a ▁b", "a▁b", "Ġ", "Ċ", "##x", "x ##y", "'s 't 'll", "I'LL we've it's", "''''", "...", "!?!?",
           "a.b,c;d:e", "¿qué?", "«x»", "\u2019s", "snake_case", "kebab-case", "a@b.co", "https://x.org/?q=1&r=2#z", "$5 €6 ¥7",
           "a\tb\tc", "tab\t\t\tend", "no  double   triple    quad", "\n  indented\n    more\n", "x\u0300\u0301\u0302\u0303\u0304",
           "👨‍👩‍👧", "👩🏿‍🚀", "🏳️‍🌈", "🇺🇸", "👍🏻👍🏿", "\U0001f3fb", "क्षि", "நி", "ก็", "กำ", "\u0e33", "عَرَبِيّ", "שָׁלוֹם"]
    for line in WORDS.values():
        out += [line.upper(), " " + line, line.replace(" ", "")]
        words = line.split()
        out += [" ".join(words[i:i + 3]) for i in range(0, len(words), 5)]
    pool = "".join(WORDS.values()) + " \n\t\u0301\u200d\ufe0f[]<>_'.,!?"
    for _ in range(50):
        out.append("".join(rng.choice(pool) for _ in range(rng.randint(1, 30))))
    for _ in range(30):
        out.append("".join(chr(rng.choice([rng.randint(0, 0x7f), rng.randint(0x80, 0x2fff), rng.randint(0x3000, 0xd7ff),
                                           rng.randint(0xf900, 0xfffd), rng.randint(0x1f300, 0x1faff)]))
                           for _ in range(rng.randint(1, 25))))
    # Marks that came into Unicode after the tables of the package, and are marks to whoever knows them.
    return list(dict.fromkeys("".join("x" if 0x1abf <= ord(c) <= 0x1aff else c for c in t) for t in out))


LLAMA3 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|"
          r"\s+(?!\S)|\s+")
O200K = (r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|"
         r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|"
         r"\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+")


def trained(tokenizer, trainer):
    tokenizer.train_from_iterator(CORPUS, trainer)
    return tokenizer


def byte_bpe(pre, size=420, normalizer=None, **model):
    t = Tokenizer(models.BPE(**model))
    if normalizer:
        t.normalizer = normalizer
    t.pre_tokenizer = pre
    t.decoder = decoders.ByteLevel()
    return trained(t, trainers.BpeTrainer(vocab_size=size, initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
                                          special_tokens=["<|endoftext|>"], show_progress=False))


def gpt2():
    t = byte_bpe(pre_tokenizers.ByteLevel(add_prefix_space=False))
    t.post_processor = processors.ByteLevel(trim_offsets=False)
    return t


def roberta():
    t = byte_bpe(pre_tokenizers.ByteLevel(add_prefix_space=True))
    t.add_special_tokens(["<s>", "</s>", AddedToken("<mask>", lstrip=True)])
    t.post_processor = processors.RobertaProcessing(("</s>", t.token_to_id("</s>")), ("<s>", t.token_to_id("<s>")))
    return t


def llama3():
    t = byte_bpe(pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(LLAMA3), "isolated"),
                                          pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)]))
    text = json.loads(t.to_str())
    text["model"]["ignore_merges"] = True
    t = Tokenizer.from_str(json.dumps(text))
    begin = t.token_to_id("<|endoftext|>")
    t.post_processor = processors.Sequence([processors.ByteLevel(trim_offsets=False), processors.TemplateProcessing(
        single="<|endoftext|> $A", pair="<|endoftext|> $A <|endoftext|> $B", special_tokens=[("<|endoftext|>", begin)])])
    t.add_tokens([AddedToken("<word>", single_word=True), "Thing"])
    return t


def qwen():
    t = byte_bpe(pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(O200K), "isolated"),
                                          pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)]),
                 normalizer=normalizers.NFC())
    return t


def spm_bpe(normalizer, pre, decoder, post=True, **model):
    t = Tokenizer(models.BPE(byte_fallback=True, unk_token="<unk>", fuse_unk=True))
    t.pre_tokenizer = pre_tokenizers.Metaspace()  # to learn words; the parts that a model uses come after
    bytes_ = [f"<0x{i:02X}>" for i in range(256)]
    trained(t, trainers.BpeTrainer(vocab_size=560, special_tokens=["<unk>", "<s>", "</s>"] + bytes_, limit_alphabet=120,
                                   show_progress=False))
    text = json.loads(t.to_str())
    text["added_tokens"] = [a for a in text["added_tokens"] if not a["content"].startswith("<0x")]
    text["pre_tokenizer"] = None
    t = Tokenizer.from_str(json.dumps(text))
    if normalizer:
        t.normalizer = normalizer
    if pre:
        t.pre_tokenizer = pre
    t.decoder = decoder
    if post:
        t.post_processor = processors.TemplateProcessing(single="<s> $A", pair="<s> $A <s> $B", special_tokens=[("<s>", 1)])
    return t


def llama2():
    return spm_bpe(normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")]), None,
                   decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(),
                                      decoders.Strip(" ", 1, 0)]))


def mistral():
    return spm_bpe(None, pre_tokenizers.Metaspace(prepend_scheme="first", split=False),
                   decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(),
                                      decoders.Strip(" ", 1, 0)]))


def gemma():
    return spm_bpe(normalizers.Replace(" ", "▁"), pre_tokenizers.Split(" ", "merged_with_previous"),
                   decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()]))


def bert(normalizer, cleanup=True, template=True):
    t = Tokenizer(models.WordPiece(unk_token="[UNK]", max_input_chars_per_word=100))
    t.normalizer = normalizer
    t.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    trained(t, trainers.WordPieceTrainer(vocab_size=500, special_tokens=["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"],
                                         show_progress=False))
    t.decoder = decoders.WordPiece(cleanup=cleanup)
    if template:
        t.post_processor = processors.TemplateProcessing(single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B:1 [SEP]:1",
                                                         special_tokens=[("[CLS]", 2), ("[SEP]", 3)])
    else:
        t.post_processor = processors.BertProcessing(("[SEP]", 3), ("[CLS]", 2))
    return t


def charsmap():
    """A small table as sentencepiece makes it: compatibility forms, spaces, and an entry of two characters."""
    rules = {"ﬁ": "fi", "①": "1", "½": "1/2", "\u00a0": " ", "\u3000": " ", "\u2003": " ", "\t": " ", "\n": " ", "\r": " ",
             "Ｆ": "F", "ｶ": "カ", "e\u0301": "é", "㍿": "株式会社", "\u0001": "", "\u200b": " ", "A": "a", "ك": "ک"}
    with tempfile.NamedTemporaryFile("w", suffix=".tsv") as f:
        for k, v in rules.items():
            f.write(" ".join(f"{ord(c):X}" for c in k) + "\t" + " ".join(f"{ord(c):X}" for c in v) + "\n")
        f.flush()
        model = io.BytesIO()
        sentencepiece.SentencePieceTrainer.train(sentence_iterator=iter(CORPUS), model_writer=model, vocab_size=400,
                                                 normalization_rule_tsv=f.name, hard_vocab_limit=False, minloglevel=2)
    from sentencepiece import sentencepiece_model_pb2 as pb
    proto = pb.ModelProto()
    proto.ParseFromString(model.getvalue())
    return proto.normalizer_spec.precompiled_charsmap


def unigram(normalizer, pre, byte_fallback=False):
    t = Tokenizer(models.Unigram())
    t.pre_tokenizer = pre
    if normalizer:
        t.normalizer = normalizer
    specials = ["<pad>", "</s>", "<unk>"] + ([f"<0x{i:02X}>" for i in range(256)] if byte_fallback else [])
    trained(t, trainers.UnigramTrainer(vocab_size=400 + len(specials), special_tokens=specials, unk_token="<unk>",
                                       show_progress=False))
    text = json.loads(t.to_str())
    text["model"]["byte_fallback"] = byte_fallback
    text["added_tokens"] = [a for a in text["added_tokens"] if not a["content"].startswith("<0x")]
    t = Tokenizer.from_str(json.dumps(text))
    t.decoder = decoders.Sequence([decoders.ByteFallback(), decoders.Metaspace()]) if byte_fallback else decoders.Metaspace()
    t.post_processor = processors.TemplateProcessing(single="$A </s>", pair="$A </s> $B </s>", special_tokens=[("</s>", 1)])
    return t


def t5():
    table = normalizers.Precompiled(charsmap())
    return unigram(normalizers.Sequence([table, normalizers.Strip(left=False, right=True),
                                         normalizers.Replace(Regex(" {2,}"), "▁")]),
                   pre_tokenizers.Sequence([pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Metaspace()]))


def small(model, normalizer, pre, decoder=None):
    t = Tokenizer(model)
    if normalizer:
        t.normalizer = normalizer
    t.pre_tokenizer = pre
    trainer = {"BPE": trainers.BpeTrainer, "WordLevel": trainers.WordLevelTrainer}[type(model).__name__]
    extra = {"end_of_word_suffix": "</w>"} if getattr(model, "end_of_word_suffix", None) else {}
    trained(t, trainer(vocab_size=300, special_tokens=["<unk>"], show_progress=False, **extra))
    if decoder:
        t.decoder = decoder
    return t


def digits():
    return small(models.BPE(unk_token="<unk>"), normalizers.Sequence([normalizers.NFKD(), normalizers.StripAccents(),
                                                                      normalizers.Lowercase(), normalizers.Strip()]),
                 pre_tokenizers.Sequence([pre_tokenizers.Whitespace(), pre_tokenizers.Digits(individual_digits=True)]))


def clip():
    return small(models.BPE(unk_token="<unk>", end_of_word_suffix="</w>"),
                 normalizers.Sequence([normalizers.NFKC(), normalizers.Replace(Regex(r"\s+"), " "), normalizers.Lowercase()]),
                 pre_tokenizers.Sequence([pre_tokenizers.Digits(), pre_tokenizers.Punctuation("contiguous"),
                                          pre_tokenizers.Split(Regex(r"\w+|[^\w\s]+"), "removed", invert=True)]),
                 decoders.BPEDecoder(suffix="</w>"))


def words():
    return small(models.WordLevel(unk_token="<unk>"), normalizers.NFD(),
                 pre_tokenizers.Sequence([pre_tokenizers.Punctuation("merged_with_next"), pre_tokenizers.CharDelimiterSplit(" ")]))


KINDS = {
    "gpt2": gpt2, "roberta": roberta, "llama3": llama3, "qwen": qwen, "llama2": llama2, "mistral": mistral, "gemma": gemma,
    "bert": lambda: bert(normalizers.BertNormalizer()),
    "bert_cased": lambda: bert(normalizers.BertNormalizer(lowercase=False, handle_chinese_chars=False), False, False),
    "t5": t5, "unigram_bytes": lambda: unigram(normalizers.NFKC(), pre_tokenizers.Metaspace(prepend_scheme="first"), True),
    "digits": digits, "clip": clip, "words": words,
}


def main(out):
    os.makedirs(out, exist_ok=True)
    all_texts = texts()
    with open(f"{out}/texts.json", "w") as f:
        json.dump(all_texts, f, ensure_ascii=True, separators=(",", ":"))
    for name, make in KINDS.items():
        t = make()
        with open(f"{out}/{name}.json", "w") as f:
            json.dump(json.loads(t.to_str()), f, ensure_ascii=False, separators=(",", ":"))
        t = Tokenizer.from_file(f"{out}/{name}.json")
        pairs = []
        for text in all_texts:
            ids = t.encode(text).ids
            decoded = t.decode(ids)
            with_special = t.decode(ids, skip_special_tokens=False) if len(pairs) < 120 else decoded
            pairs.append([ids, decoded if decoded != text else None, with_special if with_special != decoded else None])
        with open(f"{out}/{name}.pairs.json", "w") as f:
            json.dump(pairs, f, ensure_ascii=False, separators=(",", ":"))
    print(len(all_texts), "texts,", len(KINDS), "tokenizers")


if __name__ == "__main__":
    main(sys.argv[1])
