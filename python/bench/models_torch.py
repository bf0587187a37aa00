"""Models through torch.compile beside eager and Inductor, on a device of CUDA that vkfuse has, too; ms, medians.

    python models_torch.py [--train [--dtype bfloat16]] [--modes vkfuse,eager,inductor,reduce-overhead] [MODEL...]

Inference is float16 with random weights. With --train, a step is forward, backward and AdamW of parameters in float32
under autocast, of float16 with GradScaler. Every mode is timed in turn, twice, by events of CUDA, and compared with
eager: the largest difference of results over the largest result, or the loss after ten steps.
"""

import argparse
import statistics
import warnings

import torch

warnings.filterwarnings("ignore")


def _transformers():
    import transformers

    transformers.logging.set_verbosity_error()
    return transformers


def resnet50():
    import timm

    return timm.create_model("resnet50"), (torch.randn(32, 3, 224, 224),), None


def resnet50_b64():
    model, _, _ = resnet50()
    return model, (torch.randn(64, 3, 224, 224),), torch.randint(0, 1000, (64,))


def bert_large():
    t = _transformers()
    config = t.BertConfig(hidden_size=1024, num_hidden_layers=24, num_attention_heads=16, intermediate_size=4096)
    return t.BertModel(config), (torch.randint(0, config.vocab_size, (8, 512)),), None


def gpt2_medium():
    t = _transformers()
    config = t.GPT2Config(n_embd=1024, n_layer=24, n_head=16, use_cache=False)
    return t.GPT2LMHeadModel(config), (torch.randint(0, config.vocab_size, (4, 1024)),), None


def gpt2():
    t = _transformers()
    config = t.GPT2Config(use_cache=False, resid_pdrop=0, embd_pdrop=0, attn_pdrop=0)
    tokens = torch.randint(0, config.vocab_size, (8, 1024))
    return t.GPT2LMHeadModel(config), (tokens,), tokens


INFERENCE = {"resnet50": resnet50, "bert-large": bert_large, "gpt2-medium": gpt2_medium}
TRAINING = {"gpt2": gpt2, "resnet50": resnet50_b64}
_BACKENDS = {
    "eager": None, "vkfuse": {"backend": "vkfuse"}, "inductor": {}, "reduce-overhead": {"mode": "reduce-overhead"}
}  # fmt: skip


def compiled(model, mode):
    """The model as this mode runs it."""
    torch._dynamo.reset()
    options = _BACKENDS[mode]
    return model if options is None else torch.compile(model, dynamic=False, **options)


def first_of(made):
    return made if isinstance(made, torch.Tensor) else made[0]


def timed(call, runs):
    """Medians of `runs` calls, between two events each, after as many."""
    for _ in range(runs):
        call()
    events = [[torch.cuda.Event(enable_timing=True) for _ in range(2)] for _ in range(runs)]
    for begin, end in events:
        begin.record()
        call()
        end.record()
    torch.cuda.synchronize()
    return statistics.median(begin.elapsed_time(end) for begin, end in events)


def infer(name, modes):
    model, inputs, _ = INFERENCE[name]()
    model = model.eval().half().cuda()
    inputs = [one.cuda().half() if one.is_floating_point() else one.cuda() for one in inputs]
    expected, largest = None, 0
    with torch.no_grad():
        expected = first_of(model(*inputs)).float()
        largest = expected.abs().max().item()
        for _ in range(2):
            for mode in modes:
                call = compiled(model, mode)
                error = (first_of(call(*inputs)).float() - expected).abs().max().item() / largest
                print(f"{name:12} {mode:16} {timed(lambda: call(*inputs), 25):9.3f} ms   error {error:.1e}", flush=True)


def train(name, modes, dtype):
    for _ in range(2):
        for mode in modes:
            torch.manual_seed(1)
            model, inputs, labels = TRAINING[name]()
            model, inputs, labels = model.train().cuda(), [one.cuda() for one in inputs], labels.cuda()
            optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
            scaler = torch.amp.GradScaler(enabled=dtype == torch.float16)

            def loss_of(*inputs):
                made = first_of(model(*inputs))
                if made.ndim == 3:
                    made = made[:, :-1].flatten(0, 1)
                    return torch.nn.functional.cross_entropy(made.float(), labels[:, 1:].flatten())
                return torch.nn.functional.cross_entropy(made.float(), labels)

            call = compiled(loss_of, mode)

            def step():
                with torch.autocast("cuda", dtype):
                    loss = call(*inputs)
                scaler.scale(loss).backward()
                scaler.step(optimizer)
                scaler.update()
                optimizer.zero_grad()
                return loss

            losses = [step().item() for _ in range(10)]
            print(f"{name:12} {mode:16} {timed(step, 10):9.3f} ms a step   loss {losses[0]:.4f} {losses[-1]:.4f}",
                  flush=True)  # fmt: skip


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("models", nargs="*")
    parser.add_argument("--train", action="store_true")
    parser.add_argument("--dtype", default="float16", choices=["float16", "bfloat16"])
    parser.add_argument("--modes", default="vkfuse,eager,inductor,reduce-overhead")
    given = parser.parse_args()
    torch.backends.cuda.matmul.allow_tf32 = False
    print(torch.cuda.get_device_name(), "PyTorch", torch.__version__, flush=True)
    for name in given.models or (TRAINING if given.train else INFERENCE):
        modes = given.modes.split(",")
        train(name, modes, getattr(torch, given.dtype)) if given.train else infer(name, modes)


if __name__ == "__main__":
    main()
