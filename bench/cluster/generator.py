"""`helenus bench` as the load of a script."""
import json
import os
import subprocess


def bench(arguments, cluster, *words):
    """Runs `helenus bench run` against all nodes of a cluster, with the script's `--seconds`, `--warmup` and `--directory` and more words.
    Returns its report, in which nothing failed."""
    report = f"{arguments.directory}/report.json"
    line = [arguments.helenus, "bench", "run", "--quiet", "--json", report, *words]
    line += ["--duration", f"{arguments.seconds}s", "--warmup", f"{arguments.warmup}s"]
    for node in cluster.nodes:
        line += ["--host", node.address, "--pid", str(node.pid)]
    if os.path.exists(report):
        os.remove(report)
    done = subprocess.run(line, capture_output=True, text=True)
    if not os.path.exists(report):
        raise RuntimeError(done.stdout + done.stderr)
    with open(report) as file:
        found = json.load(file)
    if found["failed"]:
        raise RuntimeError(f"{found['failed']} failed: {found['errors']}")
    return found
