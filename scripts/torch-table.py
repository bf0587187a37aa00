#!/usr/bin/env python3
"""The ops of ATen that vkfuse.torch has rules for, as docs/torch.md lists them.

  usage: scripts/torch-table.py [--write]      (with a Python that has PyTorch and vkfuse)
"""
import pathlib
import sys
import textwrap

PAGE = pathlib.Path(__file__).resolve().parent.parent / "docs" / "torch.md"
BEGIN, END = "<!-- rules -->\n", "<!-- end of rules -->\n"


def table():
    """A paragraph: overloads of one op are one name."""
    import torch

    import vkfuse.torch

    names = {}
    for name in vkfuse.torch.covered():
        packet, _, overload = name.partition(".")
        op = getattr(getattr(torch.ops.aten, packet), overload)
        names[packet] = names.get(packet, False) or torch.Tag.core in op.tags
    shown = [f"**`{name}`**" if is_core else f"`{name}`" for name, is_core in sorted(names.items())]
    text = ", ".join(shown)
    return "\n".join(textwrap.wrap(text, 118, break_long_words=False, break_on_hyphens=False)) + "\n"


def main():
    page = PAGE.read_text(encoding="utf-8")
    before, rest = page.split(BEGIN)
    after = rest.split(END)[1]
    made = before + BEGIN + table() + END + after
    if "--write" in sys.argv:
        PAGE.write_text(made, encoding="utf-8")
    elif made != page:
        sys.exit("docs/torch.md lists other rules than there are: run scripts/torch-table.py --write.")


if __name__ == "__main__":
    main()
