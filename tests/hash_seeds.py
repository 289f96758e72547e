"""What a script prints in two processes whose hashes of strings differ: order must not come from a set."""

import os
import subprocess
import sys


def outputs_under_two_hash_seeds(script: str) -> list[str]:
    outputs = []
    for hash_seed in ("1", "2"):
        environment = {**os.environ, "PYTHONHASHSEED": hash_seed, "PYTHONPATH": os.pathsep.join(sys.path)}
        command = [sys.executable, "-c", script]
        outputs.append(subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout)
    return outputs
