"""Checks the demonstration's promises, and compares its loss curves with tests/golden/demo.json.

Another CPU rounds differently (wider vectors, another order of sums), and training amplifies that. So the first updates
are compared tightly and the rest loosely. The loose tolerance still shows another formula, learning rate or order of
data. It is far above the 1e-6 by which ATen's widest and narrowest vectors differed on one machine.

    demo_test.py            # run the demonstration and compare
    demo_test.py --write    # run it and write the golden file, after an intended change
"""

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

PROGRAM = os.environ["DPO_PROGRAM"]
GOLDEN = Path(__file__).with_name("demo.json")
EVERY = 5  # updates between two kept values
# Maps a run to (examples compared tightly, relative tolerance for them, relative and absolute tolerance after them).
TOLERANCE = {"sft": (640, 1e-4, 0.02, 0.02), "dpo": (160, 1e-4, 0.02, 0.02)}


def curves(run):
    """Returns the training loss of some updates and of all evaluations, as [examples, loss]."""
    lines = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    train = [[line["counters/examples"], line["loss/train"]] for line in lines if "loss/train" in line]
    evaluation = [[line["counters/examples"], line["loss/eval"]] for line in lines if "loss/eval" in line]
    return {"train": train[::EVERY], "eval": evaluation}


def check(holds, message):
    print(("ok      " if holds else "FAILED  ") + message)
    return bool(holds)


def compare(name, found, golden):
    tight_until, tight, relative, absolute = TOLERANCE[name]
    fine = True
    for kind in ("train", "eval"):
        fine &= check([x for x, _ in found[kind]] == [x for x, _ in golden[kind]], f"{name} {kind}: the same steps")
        worst = 0
        for (examples, value), (_, expected) in zip(found[kind], golden[kind]):
            early = examples <= tight_until
            allowed = tight * abs(expected) if early else relative * abs(expected) + absolute
            worst = max(worst, abs(value - expected) / allowed)
        fine &= check(worst <= 1, f"{name} {kind}: off by at most {worst:.2g} of what is allowed")
    return fine


def check_promises(result, folder):
    accepted = result["accepted"]
    fine = check(set(result) == {"heldout_accuracy", "accepted", "seconds"} and set(accepted) == {"init", "sft", "dpo"},
                 "the JSON has its keys")
    fine &= check(result["heldout_accuracy"] >= 0.9, f"held-out accuracy {result['heldout_accuracy']:.3f} is 0.9 or more")
    fine &= check(1 - accepted["dpo"] <= (1 - accepted["sft"]) / 2, f"DPO halves the rejected samples: {accepted}")
    fine &= check(accepted["init"] < 0.05, "an untrained model is not accepted")
    page = (folder / "report.html").read_text()
    fine &= check(page.count('<svg class="plot"') == 4 and page.count("<script") == 1 and "://" not in page,
                  "the report has its curves and needs nothing else")
    return fine


def refuses_a_foreign_folder(folder):
    (folder / "mine.txt").write_text("mine")
    ran = subprocess.run([PROGRAM, "demo", "--dir", folder], capture_output=True, text=True)
    return check(ran.returncode == 1 and "not created by 'dpo demo'" in ran.stderr and len(list(folder.iterdir())) == 1,
                 "a folder of someone else is left alone")


def keeps_promises_with_lora(folder):
    ran = subprocess.run([PROGRAM, "demo", "--lora", "--json", "--dir", folder], capture_output=True, text=True)
    adapter = folder / "dpo" / "LATEST" / "adapter_model.safetensors"
    return check(ran.returncode == 0 and adapter.exists(), "--lora trains an adapter" + ran.stderr * (ran.returncode != 0)) \
        and check_promises(json.loads(ran.stdout.splitlines()[-1]), folder)


def main() -> int:
    with tempfile.TemporaryDirectory() as scratch:
        foreign, folder = Path(scratch) / "foreign", Path(scratch) / "a demo"
        foreign.mkdir()
        fine = refuses_a_foreign_folder(foreign)
        ran = subprocess.run([PROGRAM, "demo", "--json", "--dir", folder], capture_output=True, text=True)
        if ran.returncode != 0:
            print(ran.stderr)
            return 1
        found = {name: curves(folder / name) for name in TOLERANCE}
        fine &= check_promises(json.loads(ran.stdout.splitlines()[-1]), folder)
        if os.environ.get("DPO_TEST_ALL"):
            fine &= keeps_promises_with_lora(Path(scratch) / "lora")
    if "--write" in sys.argv:
        GOLDEN.write_text(json.dumps(found, indent=None, separators=(",", ":")).replace("],[", "],\n[") + "\n")
        print(f"wrote {GOLDEN}")
        return 0 if fine else 1
    golden = json.loads(GOLDEN.read_text())
    for name in TOLERANCE:
        fine &= compare(name, found[name], golden[name])
    return 0 if fine else 1


if __name__ == "__main__":
    if not Path(PROGRAM + "-engine").exists():
        print("not run: built without LibTorch")
        sys.exit(77)
    sys.exit(main())
