"""Tiny language models of each family as Hugging Face folders, with what transformers makes of them.

make_models.py TOKENIZERS OUT: OUT/FAMILY/ with config.json, weights, tokenizer.json (of TOKENIZERS, made by
make_tokenizers.py), reference.safetensors (tokens, logits) and reference.json (prompts, and the ids that greedy search
gives). Needs torch, transformers and safetensors.
"""
import json
import os
import shutil
import sys

import torch
import transformers as t
from safetensors.torch import save_file
from tokenizers import Tokenizer

SIZES = dict(hidden_size=16, intermediate_size=24, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2,
             max_position_embeddings=128, initializer_range=0.3, bos_token_id=0, eos_token_id=0, pad_token_id=0)
PROMPTS = ["The quick brown fox", "Größere Häuser", "a", "def f(x):\n    return x", "我能吞下玻璃而不伤身体 and then some more words"]

SEEDS = {"phi3": 117}  # with which the best token is far enough from the next

FAMILIES = {
    "llama": ("llama3", t.LlamaConfig, dict(attention_bias=True, rope_parameters=dict(
        rope_type="llama3", rope_theta=500.0, factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0,
        original_max_position_embeddings=32)), {}),
    "qwen2": ("qwen", t.Qwen2Config, dict(tie_word_embeddings=True), dict(max_shard_size="12KB")),
    "qwen3": ("qwen", t.Qwen3Config, dict(head_dim=8, rope_parameters=dict(rope_type="linear", rope_theta=10000.0, factor=2.0)), {}),
    "mistral": ("mistral", t.MistralConfig, dict(sliding_window=7, head_dim=8), {}),
    "gemma": ("gemma", t.GemmaConfig, dict(head_dim=8), {}),
    "gemma2": ("gemma", t.Gemma2Config, dict(head_dim=8, sliding_window=6, query_pre_attn_scalar=12, attn_logit_softcapping=3.0,
                                             final_logit_softcapping=8.0), {}),
    "gemma3": ("gemma", t.Gemma3TextConfig, dict(head_dim=8, sliding_window=6, query_pre_attn_scalar=12,
                                                 layer_types=["sliding_attention", "full_attention"]), {}),
    "phi3": ("llama2", t.Phi3Config, dict(rope_parameters=dict(rope_type="default", rope_theta=10000.0, partial_rotary_factor=0.5),
                                          num_attention_heads=2, num_key_value_heads=1), {}),
    "gpt2": ("gpt2", t.GPT2Config, None, {}),
}


def config_of(family, vocabulary):
    _, kind, changes, _ = FAMILIES[family]
    if kind is t.GPT2Config:
        return kind(vocab_size=vocabulary, n_embd=16, n_layer=2, n_head=4, n_positions=128, initializer_range=0.3,
                    bos_token_id=0, eos_token_id=0, pad_token_id=0)
    return kind(**{**SIZES, "vocab_size": vocabulary, **changes})


def main(tokenizers, out):
    for number, (family, (tokenizer, kind, _, saving)) in enumerate(FAMILIES.items()):
        folder = f"{out}/{family}"
        shutil.rmtree(folder, ignore_errors=True)
        os.makedirs(folder)
        shutil.copyfile(f"{tokenizers}/{tokenizer}.json", f"{folder}/tokenizer.json")
        words = Tokenizer.from_file(f"{folder}/tokenizer.json")
        config = config_of(family, words.get_vocab_size())
        config._attn_implementation = "eager"
        torch.manual_seed(SEEDS.get(family, 17) + number)
        model = t.AutoModelForCausalLM.from_config(config, attn_implementation="eager").eval()
        with torch.no_grad():  # norms and biases that do something
            for name, p in model.named_parameters():
                if p.dim() == 1:
                    p.add_(torch.randn_like(p) * 0.2)
        model.save_pretrained(folder, **saving)
        tokens = torch.randint(0, words.get_vocab_size(), (1, 8))
        with torch.no_grad():
            logits = model(tokens).logits
        save_file({"tokens": tokens, "logits": logits.contiguous()}, f"{folder}/reference.safetensors")
        greedy, least = [], 9.0
        for prompt in PROMPTS:
            ids = torch.tensor([words.encode(prompt).ids])
            with torch.no_grad():
                given = model.generate(ids, attention_mask=torch.ones_like(ids), max_new_tokens=20, do_sample=False,
                                       return_dict_in_generate=True, output_logits=True)
            greedy.append(given.sequences[0, ids.shape[1]:].tolist())
            for step in given.logits:
                best = step[0].topk(2).values
                least = min(least, float(best[0] - best[1]))
        with open(f"{folder}/reference.json", "w") as f:
            json.dump({"prompts": PROMPTS, "greedy": greedy}, f, ensure_ascii=False)
        print(family, "least distance of the best token to the next:", round(least, 5), [len(g) for g in greedy])


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
