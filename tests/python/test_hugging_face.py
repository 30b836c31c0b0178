"""A small transformers model in a Trainer-style loop, and transformers.Trainer itself, beside the CPU's losses."""
import pytest
import torch
import tpubridge
from conftest import close

transformers = pytest.importorskip("transformers")


def make_model(kind="gpt2"):
    torch.manual_seed(0)
    if kind == "gpt2":
        return transformers.GPT2LMHeadModel(transformers.GPT2Config(
            n_layer=2, n_head=2, n_embd=32, vocab_size=64, n_positions=32, resid_pdrop=0, embd_pdrop=0, attn_pdrop=0,
            bos_token_id=1, eos_token_id=2))
    return transformers.LlamaForCausalLM(transformers.LlamaConfig(
        num_hidden_layers=2, num_attention_heads=2, num_key_value_heads=1, hidden_size=32, intermediate_size=48,
        vocab_size=64, max_position_embeddings=32, bos_token_id=1, eos_token_id=2))


def batches(count, seed=1):
    generator = torch.Generator().manual_seed(seed)
    return [torch.randint(3, 64, (4, 16), generator=generator) for _ in range(count)]


@pytest.mark.parametrize("kind", ["gpt2", "llama"])
@pytest.mark.parametrize("autocast", [False, True])
def test_a_loop_like_a_trainers(kind, autocast, tmp_path):
    """AdamW with decay by groups, a schedule, clipping, accumulation, autocast, a checkpoint in the middle."""
    def run(device):
        model = make_model(kind).to(device)
        groups = [{"params": [p for p in model.parameters() if p.dim() > 1], "weight_decay": 0.1},
                  {"params": [p for p in model.parameters() if p.dim() <= 1], "weight_decay": 0.0}]
        optimizer = torch.optim.AdamW(groups, lr=1e-3)
        schedule = transformers.get_cosine_schedule_with_warmup(optimizer, 2, 8)
        losses = []
        for i, ids in enumerate(batches(12)):
            ids = ids.to(device)
            with torch.autocast(device, dtype=torch.bfloat16, enabled=autocast):
                loss = model(input_ids=ids, labels=ids).loss / 2
            loss.backward()
            losses.append(loss.item())
            if i % 2:
                torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
                optimizer.step(), schedule.step(), optimizer.zero_grad()
            if i == 5:
                file = tmp_path / f"{device}.pt"
                torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict(), "schedule": schedule.state_dict()}, file)
                model = make_model(kind).to(device)
                groups = [{**g, "params": p} for g, p in zip(groups, (
                    [p for p in model.parameters() if p.dim() > 1], [p for p in model.parameters() if p.dim() <= 1]))]
                optimizer = torch.optim.AdamW(groups, lr=1e-3)
                schedule = transformers.get_cosine_schedule_with_warmup(optimizer, 2, 8)
                state = torch.load(file)
                model.load_state_dict(state["model"]), optimizer.load_state_dict(state["optimizer"])
                schedule.load_state_dict(state["schedule"])
        return losses

    got, want = run("tpu"), run("cpu")
    assert got == pytest.approx(want, rel=2e-2 if autocast else 1e-3)
    assert want[-1] != want[0]


def test_saving_as_hugging_face_does(tmp_path):
    model = make_model().to("tpu")
    model.save_pretrained(tmp_path)
    close(dict(transformers.GPT2LMHeadModel.from_pretrained(tmp_path).state_dict()), dict(model.state_dict()))
    there = transformers.GPT2LMHeadModel.from_pretrained(tmp_path, device_map=None).to("tpu")
    assert there.lm_head.weight is there.transformer.wte.weight and there.lm_head.weight.is_tpu


def test_greedy_text():
    model = make_model("llama").eval()
    ids = batches(1)[0][:2, :5]
    want = model.generate(ids, max_new_tokens=6, do_sample=False, pad_token_id=2)
    assert torch.equal(model.to("tpu").generate(ids.to("tpu"), max_new_tokens=6, do_sample=False, pad_token_id=2).cpu(), want)


@pytest.mark.filterwarnings("ignore")
def test_transformers_trainer(tmp_path, monkeypatch):
    pytest.importorskip("accelerate")
    # accelerate takes the name of a device that it does not know from this variable; it is documented there.
    class Rows(torch.utils.data.Dataset):
        rows = torch.cat(batches(8))

        def __len__(self):
            return len(self.rows)

        def __getitem__(self, i):
            return {"input_ids": self.rows[i], "labels": self.rows[i]}

    def run(device):
        from accelerate.state import AcceleratorState, PartialState

        AcceleratorState._reset_state(reset_partial_state=True)
        if device == "tpu":
            monkeypatch.setenv("ACCELERATE_TORCH_DEVICE", "tpu")
        else:
            monkeypatch.delenv("ACCELERATE_TORCH_DEVICE", raising=False)
        PartialState._reset_state()
        arguments = transformers.TrainingArguments(
            output_dir=str(tmp_path / device), per_device_train_batch_size=4, gradient_accumulation_steps=2, max_steps=4,
            learning_rate=1e-3, lr_scheduler_type="cosine", warmup_steps=1, max_grad_norm=1.0, logging_steps=1, save_steps=2,
            report_to=[], seed=3, use_cpu=device == "cpu", disable_tqdm=True, dataloader_pin_memory=False)
        trainer = transformers.Trainer(model=make_model(), args=arguments, train_dataset=Rows())
        trainer.train()
        assert next(trainer.model.parameters()).device.type == device
        losses = [l["loss"] for l in trainer.state.log_history if "loss" in l]
        resumed = transformers.Trainer(model=make_model(), args=arguments, train_dataset=Rows())
        resumed.train(resume_from_checkpoint=str(tmp_path / device / "checkpoint-2"))
        return losses, [l["loss"] for l in resumed.state.log_history if "loss" in l][-2:]

    got, want = run("tpu"), run("cpu")
    assert len(got[0]) == 4
    assert got[0] == pytest.approx(want[0], rel=1e-3) and got[1] == pytest.approx(want[1], rel=1e-3)
