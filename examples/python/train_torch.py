"""Trains a small transformer by PyTorch on vkfuse: torch.compile(backend="vkfuse").

  usage: train_torch.py [STEPS]      (300)

It learns to sort eight digits: of the sequence "4 1 3 0 | 0 1 3 4" it predicts the second half. Digits and weights are
random, so that nothing is downloaded. Exit status 1 where the loss is not below 0.1 at the end.
"""

import sys
import time

import torch
from torch import nn

DIGITS, LENGTH, WIDTH, HEADS, BATCH, GOAL = 10, 8, 64, 4, 64, 0.1


class Block(nn.Module):
    """Attention and a perceptron, each after a norm."""

    def __init__(self):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.up, self.down = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x):
        n, length, _ = x.shape
        q, k, v = self.qkv(self.norm1(x)).view(n, length, 3, HEADS, -1).permute(2, 0, 3, 1, 4)
        seen = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(seen.transpose(1, 2).reshape(n, length, WIDTH))
        return x + self.down(nn.functional.gelu(self.up(self.norm2(x))))


class Sorter(nn.Module):
    """Logits of the next digit at each position."""

    def __init__(self):
        super().__init__()
        self.digit, self.place = nn.Embedding(DIGITS + 1, WIDTH), nn.Embedding(2 * LENGTH, WIDTH)
        self.blocks, self.norm = nn.Sequential(Block(), Block()), nn.LayerNorm(WIDTH)
        self.head = nn.Linear(WIDTH, DIGITS)

    def forward(self, tokens):
        x = self.digit(tokens) + self.place(torch.arange(tokens.shape[1]))
        return self.head(self.norm(self.blocks(x)))


def batch():
    """Tokens [BATCH, 2 LENGTH]: digits, a bar, and the sorted digits but the last; and the sorted digits."""
    digits = torch.randint(DIGITS, (BATCH, LENGTH))
    goal = digits.sort(-1).values
    bar = torch.full((BATCH, 1), DIGITS)
    return torch.cat([digits, bar, goal[:, :-1]], 1), goal


def main():
    steps = int(sys.argv[1]) if len(sys.argv) > 1 else 300
    torch.manual_seed(0)
    model = Sorter()
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)

    @torch.compile(backend="vkfuse")
    def loss_of(tokens, goal):
        logits = model(tokens)[:, LENGTH:]
        return nn.functional.cross_entropy(logits.reshape(-1, DIGITS), goal.reshape(-1))

    start, loss = time.time(), None
    for step in range(1, steps + 1):
        optimizer.zero_grad()
        loss = loss_of(*batch())
        loss.backward()
        optimizer.step()
        if step % 50 == 0 or step == 1:
            print(f"step {step:4}  loss {loss.item():.4f}  {time.time() - start:.1f} s", flush=True)
    sys.exit(0 if loss is not None and loss.item() < GOAL else 1)


if __name__ == "__main__":
    main()
