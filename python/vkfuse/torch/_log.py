"""The log: `TORCH_LOGS="+vkfuse.torch"`, or torch._logging.set_logs(modules={"vkfuse.torch": logging.INFO})."""

from __future__ import annotations

import logging

log = logging.getLogger("vkfuse.torch")
