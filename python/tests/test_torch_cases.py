"""A sample of PyTorch's own cases and of small models; scripts/deep.sh torch runs all of them."""

import pathlib

import pytest

torch = pytest.importorskip("torch", minversion="2.11", reason="PyTorch 2.11 or newer is not installed.")
pytest.importorskip("expecttest", reason="PyTorch's own cases need expecttest.")

import torch_cases  # noqa: E402
from torch.testing._internal.common_methods_invocations import op_db  # noqa: E402

ROWS = [row for row in torch_cases.ROWS.read_text().split("\n") if row]


@pytest.mark.parametrize("row", ROWS[::48])
def test_sample_of_ops(row):
    name, kind = row.rsplit(" ", 1)
    op = next(op for op in op_db if torch_cases.full_name(op) == name)
    verdict, sentence = torch_cases.verdict(op, kind, 1)
    assert verdict not in ("wrong", "failed"), sentence


def test_a_wrong_result_is_seen():
    a = torch.randn(64)
    assert torch_cases._difference(a, a.clone(), a.double()) is None
    assert torch_cases._difference(a * (1 + 1e-4), a, a.double()) is not None
    assert torch_cases._difference(a + 1j, a, None) is not None


@pytest.mark.parametrize("name", ["gpt2", "unet"])
def test_models(name):
    pytest.importorskip("transformers", reason="The models are those of transformers, which is not installed.")
    import torch_training

    wrong, _ = torch_training.compare(name)
    assert not wrong


def test_every_rule_is_on_the_page():
    page = (pathlib.Path(__file__).resolve().parents[2] / "docs" / "torch.md").read_text(encoding="utf-8")
    import vkfuse.torch

    listed = page.split("<!-- rules -->")[1].split("<!-- end of rules -->")[0]
    names = {name.partition(".")[0] for name in vkfuse.torch.covered()}
    assert {one.strip("*` ") for one in listed.replace("\n", " ").split(",")} == names
