"""In the place of ``python -m tasks``: writes down what it was asked, and answers without working.

``hum.word`` says how it goes: ``refuse`` fails as a stage that explains itself does.
"""

import json
import sys
from pathlib import Path

verb, request = sys.argv[1], json.load(sys.stdin)
with Path("requests.jsonl").open("a", encoding="utf-8") as file:
    file.write(json.dumps({"verb": verb, **request}) + "\n")
if request.get("config", {}).get("word") == "refuse":
    print("working, then a long story", file=sys.stderr)
    print("stage: hum", "cause: out of tune", "input: none", "next step: tune it", "reproduce: hum", sep="\n")
    sys.exit(3)
if verb == "close":
    sys.exit(0)
if verb == "pin":
    answer = {"fingerprints": {"hum": {"air": "fresh"}}, "knobs": {}, "champion": {}}
    answer |= {"mlflow_run_id": "parent", "mlflow_url": "http://m/parent"}
else:
    stage = request.get("stage")
    answer = {"stage": stage, "uri": f"/store/{stage}", "cached": stage == "echo", "reason": "so it is"}
    answer |= {"result": {"num_chars": 7}, "mlflow_run_id": f"run-of-{stage}", "mlflow_url": f"http://m/{stage}"}
    answer |= {"content_digest": "not handed on", "seconds": 1.0}
Path(request["outcome"]).write_text(json.dumps(answer), "utf-8")
