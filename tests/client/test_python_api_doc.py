"""The examples of docs/PYTHON_API.md, run as one program from top to bottom."""

import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from ottla.config import TransactionConfig
from ottla.testing.pytest_plugin import OttlaNode

PAGE = Path(__file__).parents[2] / "docs" / "PYTHON_API.md"


def test_the_examples_of_the_page_run(ottla_node_factory: Callable[..., OttlaNode], tmp_path: Path) -> None:
    node = ottla_node_factory(transactions=TransactionConfig(transaction_two_phase_commit_enable=True))
    blocks = re.findall(r"```python\n(.*?)```", PAGE.read_text(), flags=re.DOTALL)
    program = "\n".join(blocks).replace("localhost:9092", node.bootstrap_servers)

    done = subprocess.run(
        [sys.executable, "-c", program], cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False
    )

    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == "UNKNOWN_TOPIC_OR_PARTITION"
