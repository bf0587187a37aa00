"""Tests of the installed package: the driver is whatever VK_ICD_FILENAMES says."""

import os
import pathlib

import numpy as np
import pytest

os.environ.setdefault("VKFUSE_CACHE", "off")

import vkfuse  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parents[2]


@pytest.fixture(scope="session")
def device():
    return vkfuse.default_device()


@pytest.fixture
def rng():
    return np.random.default_rng(7)
