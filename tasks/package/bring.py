"""Makes a packaged model known to this machine's BentoML, from whatever store: ``python -m tasks.package.bring PATH``.

Prints the bento's tag, for ``bin/serve``.
"""

from __future__ import annotations

import json
import subprocess
import sys

from upath import UPath

from tasks.core.transfer import local_copy


def bring(artifact: UPath) -> str:
    """Import the bento of an artifact of ``package`` unless BentoML has it; its tag."""
    bento = json.loads((artifact / "bento.json").read_text("utf-8"))
    if subprocess.run(["bentoml", "get", bento["tag"]], capture_output=True, check=False).returncode != 0:
        with local_copy(artifact) as folder:
            subprocess.run(["bentoml", "import", str(folder / bento["file"])], check=True, stdout=sys.stderr)
    return str(bento["tag"])


if __name__ == "__main__":
    sys.stdout.write(bring(UPath(sys.argv[1])) + "\n")
