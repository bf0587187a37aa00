"""Small models with random weights: transformers' of a few layers, and a U-Net. Each is a function that makes a module
and what it is called with; a module returns a scalar loss and the tensors that are compared."""

import warnings

import torch
from torch import nn


def _transformers():
    warnings.filterwarnings("ignore")
    import transformers

    transformers.logging.set_verbosity_error()
    return transformers


class _Loss(nn.Module):
    """A model of transformers, and a loss of its first result."""

    def __init__(self, model, pick):
        super().__init__()
        self.model, self.pick = model, pick

    def forward(self, **inputs):
        made = self.pick(self.model(**inputs, return_dict=True))
        rows = made.reshape(-1, made.shape[-1])
        labels = torch.arange(rows.shape[0]) % rows.shape[1]
        return nn.functional.cross_entropy(rows.float(), labels), made


def _classes(model, **options):
    return _Loss(model, lambda made: made.logits)


def _images(size=32, batch=2):
    return {"pixel_values": torch.randn(batch, 3, size, size)}


def _tokens(words=97, batch=2, length=12):
    return {"input_ids": torch.randint(0, words, (batch, length))}


def _damped(model):
    """Residual branches begin small, as is usual: without it, gradients of fifty layers of batch norm over a few images
    have errors of 1e-4 in float32, in eager too."""
    for name, module in model.named_modules():
        if isinstance(module, nn.BatchNorm2d) and name.endswith(".layer.2.normalization"):
            nn.init.constant_(module.weight, 0.2)
    return model


def resnet18():
    t = _transformers()
    config = t.ResNetConfig(embedding_size=8, hidden_sizes=[8, 16, 24, 32], depths=[2, 2, 2, 2], layer_type="basic",
                            num_labels=10)  # fmt: skip
    return _classes(t.ResNetForImageClassification(config)), _images(64, 4)


def resnet50():
    t = _transformers()
    config = t.ResNetConfig(embedding_size=8, hidden_sizes=[16, 32, 48, 64], depths=[3, 4, 6, 3],
                            layer_type="bottleneck", num_labels=10)  # fmt: skip
    return _classes(_damped(t.ResNetForImageClassification(config))), _images(64, 4)


def gpt2():
    t = _transformers()
    config = t.GPT2Config(vocab_size=97, n_positions=32, n_embd=32, n_layer=2, n_head=4, resid_pdrop=0, embd_pdrop=0,
                          attn_pdrop=0, use_cache=False)  # fmt: skip
    return _classes(t.GPT2LMHeadModel(config)), _tokens()


def bert():
    t = _transformers()
    config = t.BertConfig(vocab_size=97, hidden_size=32, num_hidden_layers=2, num_attention_heads=4,
                          intermediate_size=64, max_position_embeddings=32, hidden_dropout_prob=0,
                          attention_probs_dropout_prob=0)  # fmt: skip
    mask = torch.ones(2, 12, dtype=torch.int64)
    mask[1, 8:] = 0
    return _classes(t.BertForMaskedLM(config)), {**_tokens(), "attention_mask": mask}


def llama():
    t = _transformers()
    config = t.LlamaConfig(vocab_size=97, hidden_size=32, intermediate_size=64, num_hidden_layers=2,
                           num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=32,
                           use_cache=False)  # fmt: skip
    return _classes(t.LlamaForCausalLM(config)), _tokens()


def vit():
    t = _transformers()
    config = t.ViTConfig(hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=64,
                         image_size=32, patch_size=8, hidden_dropout_prob=0, attention_probs_dropout_prob=0,
                         num_labels=10)  # fmt: skip
    return _classes(t.ViTForImageClassification(config)), _images()


def t5():
    t = _transformers()
    config = t.T5Config(vocab_size=97, d_model=32, d_kv=8, d_ff=64, num_layers=2, num_heads=4, dropout_rate=0,
                        use_cache=False, decoder_start_token_id=0, pad_token_id=0)  # fmt: skip
    inputs = _tokens()
    return _classes(t.T5ForConditionalGeneration(config)), {
        **inputs, "decoder_input_ids": torch.randint(0, 97, (2, 7))}  # fmt: skip


def convnext():
    t = _transformers()
    config = t.ConvNextConfig(num_stages=3, hidden_sizes=[16, 24, 32], depths=[2, 2, 2], num_labels=10,
                              drop_path_rate=0.0)  # fmt: skip
    return _classes(t.ConvNextForImageClassification(config)), _images()


def _block(channels_in, channels):
    return nn.Sequential(nn.Conv2d(channels_in, channels, 3, padding=1), nn.GroupNorm(4, channels), nn.SiLU(),
                         nn.Conv2d(channels, channels, 3, padding=1), nn.BatchNorm2d(channels), nn.ReLU())  # fmt: skip


class _UNet(nn.Module):
    """Down by max pooling, up by a transposed convolution and by interpolation, with a skip at each size."""

    def __init__(self):
        super().__init__()
        self.a, self.b, self.c = _block(3, 8), _block(8, 16), _block(16, 32)
        self.up_b, self.up_a = nn.ConvTranspose2d(32, 16, 2, stride=2), nn.Conv2d(16, 8, 1)
        self.d, self.e, self.last = _block(32, 16), _block(16, 8), nn.Conv2d(8, 3, 1)

    def forward(self, x):
        a = self.a(x)
        b = self.b(nn.functional.max_pool2d(a, 2))
        c = self.c(nn.functional.max_pool2d(b, 2))
        d = self.d(torch.cat([self.up_b(c), b], 1))
        up = nn.functional.interpolate(self.up_a(d), scale_factor=2, mode="bilinear", align_corners=False)
        made = self.last(self.e(torch.cat([up, a], 1)))
        return (made - x).square().mean(), made


def unet():
    return _UNet(), {"x": torch.randn(2, 3, 16, 16)}


MODELS = {one.__name__: one for one in (resnet18, resnet50, gpt2, bert, llama, vit, t5, convnext, unet)}
