"""Compares composition and overrides with the real Hydra and OmegaConf, on our own configs/ folder.

Usage: hydra_test.py [--dpo PROGRAM]; without it, DPO_PROGRAM names the program.
"""

import argparse
import json
import math
import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

try:
    from hydra import compose, initialize_config_dir
    from omegaconf import OmegaConf
except ImportError:
    print("not run: hydra-core is not in the test environment")
    sys.exit(77)

CONFIGS = Path(__file__).resolve().parents[2] / "configs"
NEEDED = ["exp_name=e", "model=gpt2-xl"]
ENVIRONMENT = {"DPO_TEST_NUMBER": "8", "DPO_TEST_TEXT": "a b"}

# Arguments that both accept, with equal values.
EQUAL = [
    [],
    ["model=pythia28"],
    ["model=blank_model", "model.name_or_path=m"],
    ["model=gpt2-large"],
    ["model=gptj"],
    ["model=llama7b"],
    ["model=pythia69", "model.fsdp_policy_mp=bfloat16", "model.archive=run/LATEST/policy.pt"],
    ["model='pythia28'"],
    ["model=pythia28", "model=gptj"],
    ["model.archive=a", "model=gptj"],
    ["loss=dpo", "loss.beta=0.1"],
    ["loss=dpo", "loss.beta=1"],
    ["loss=ipo", "loss.beta=0.1"],
    ["loss=dpo", "loss=sft"],
    ["loss.name=sft"],
    ["loss={name:sft}"],
    ["adapter=lora", "adapter.r=8", "adapter.targets=[q_proj,v_proj]"],
    ["lr=1e-6"],
    ["lr=1"],
    ["lr=1."],
    ["lr=.5"],
    ["lr=1E-6"],
    ["lr=1_0.5"],
    ["lr=1", "lr=2"],
    ["eval_every=20_000"],
    ["eval_every=+5"],
    ["eval_every=null", "save_every=400"],
    ["optimizer=AdamW", "optimizer_betas=[0.9,0.95]", "optimizer_eps=1e-6", "weight_decay=0.1"],
    ["debug=true"],
    ["debug=TRUE"],
    ["n_epochs=null", "n_examples=100"],
    ["n_epochs=NULL", "n_examples=100"],
    ["+n_examples=100"],
    ["+loss.beta=1", "loss=dpo"],
    ["++lr=1"],
    ["++foo=1"],
    ["datasets=[hh,shp]"],
    ["datasets=[ hh , shp ]"],
    ["datasets=['hh', \"shp\"]"],
    ["datasets.0=shp"],
    ["+datasets=[shp]"],
    ["wandb={enabled:false}"],
    ["wandb={enabled: false, entity: me}"],
    ["+wandb={foo:1}"],
    ["wandb.project=a-b_c"],
    ["exp_name=a b"],
    ["exp_name= a "],
    ["exp_name=a:b"],
    ["exp_name=a/b.c"],
    ["exp_name=a%b*c@d?e|f"],
    ["exp_name=$x"],
    ["exp_name=007"],
    ["exp_name=1__0"],
    ["exp_name=0x10"],
    ["exp_name=yes"],
    ["exp_name='a b'"],
    ["exp_name='a,b=c'"],
    ["exp_name='it\\'s'"],
    ["exp_name='a\\nb'"],
    ['exp_name="a\\\\"'],
    ['exp_name="a\\\\\\"b"'],
    ["exp_name=a\\,b"],
    ["exp_name=a\\=b\\:c"],
    ["exp_name=a\\b"],
    ["exp_name=a\\\\b"],
    ["exp_name='5'"],
    ["exp_name=${loss.name}"],
    ["exp_name=x-${lr}-${debug}-${n_examples}"],
    ["exp_name=${loss.name}${lr}"],
    ["exp_name=${datasets.0}"],
    ["exp_name=${datasets[0]}"],
    ["exp_name=${oc.env:DPO_TEST_TEXT}"],
    ["exp_name=${oc.env:DPO_TEST_TEXT,other}"],
    ["exp_name=${oc.env:DPO_NOT_SET,other}"],
    ["exp_name=${oc.env: DPO_NOT_SET , x }"],
    ["exp_name=${oc.env:DPO_NOT_SET,'a b'}"],
    ["exp_name='${oc.env:DPO_NOT_SET,${loss.name}}'"],
    ["exp_name=\\${lr}"],
    ["exp_name='\\${lr}'"],
    ["exp_name='\\\\${loss.name}'"],
    ["local_run_dir=${oc.env:DPO_NOT_SET,null}"],
    ["max_length=${max_prompt_length}"],
    ["max_length=${ max_prompt_length }"],
    ["+x=${oc.env:DPO_TEST_NUMBER}"],
    ["+x=${oc.env:DPO_NOT_SET,7}"],
    ["+x=${oc.env:DPO_NOT_SET,}"],
    ["+x=${wandb}"],
    ["+model.x=${.policy_dtype}"],
    ["+model.x=${..lr}"],
    ["+x=[1,2.5,true,null,a]"],
    ["+x={a:1,b:{c:[d,e]}}"],
    ["+x={a:1,a:2}"],
    ["+x={a:b:c}"],
    ["+x=[]", "+y={}"],
    ["+x="],
    ["+x=-.5"],
    ["+x=nan", "+y=-inf"],
    ["+x=123456789012345678901234567890"],
    ["+x=1", "x=2"],
    ["+x=1", "~x"],
    ["+x={a:1}", "+x={b:2}"],
    ["+x={a:1}", "x={a:2}"],
    ["+x=1", "+x.b=2"],
    ["+x.y.z=1"],
    ["+a-b=1", "+$c=2"],
]

# Arguments that both reject.
REJECTED = [
    ["batchsize=4"],
    ["lr.x=1"],
    ["model.nope=1"],
    ["loss.beta=1"],
    ["loss=dpo"],
    ["model=blank_model"],
    ["exp_name=???"],
    ["exp_name='???'"],
    ["model=nope"],
    ["loss=null"],
    ["loss=5"],
    ["loss="],
    ["+loss=dpo"],
    ["++loss=dpo"],
    ["~loss=dpo"],
    ["~nope"],
    ["~lr=1"],
    ["+lr=1"],
    ["+x=1", "+x=2"],
    ["+x={a:1}", "x={b:2}"],
    ["wandb={foo:1}"],
    ["datasets.3=hh"],
    ["lr"],
    ["=5"],
    ["~"],
    [" lr=5"],
    ["lr =5"],
    ["lr=5\n"],
    ["1=5"],
    ["a..b=1"],
    ["+++a=1"],
    ["model@x=gptj"],
    ["lr=1e-6,1e-5"],
    ["lr=choice(1,2)"],
    ["lr=range(1,5)"],
    ["exp_name=foo(1)"],
    ["exp_name=a=b"],
    ["exp_name=~/x"],
    ["exp_name=a#b"],
    ["exp_name=a!b"],
    ["exp_name='a"],
    ["exp_name='a'b"],
    ["exp_name=(a)"],
    ["datasets=[hh"],
    ["datasets=[hh,]"],
    ["datasets=[,]"],
    ["wandb={enabled}"],
    ["lr=${lr"],
    ["lr=${}"],
    ["lr=${lr}"],
    ["lr=${nope}"],
    ["lr=${foo:1}"],
    ["exp_name=${oc.env:DPO_NOT_SET}"],
    ["exp_name=${oc.env:DPO_NOT_SET,a,b}"],
]

# Intended differences: (words, who accepts them, why).
DIFFERENT = [
    (["batch_size=abc"], "hydra", "the schema gives every key a type"),
    (["batch_size='8'"], "hydra", "the schema gives every key a type"),
    (["lr="], "hydra", "the schema gives every key a type"),
    (["wandb=null"], "hydra", "the schema gives every key a type"),
    (["+lr.x=2"], "hydra", "the schema gives every key a type"),
    (["exp_name=${datasets}"], "hydra", "the schema gives every key a type"),
    (["exp_name=x${datasets}"], "hydra", "a list inside a text has no meaning but Python's"),
    (["lr=-1"], "hydra", "the schema gives every key a range"),
    (["optimizer=Lion"], "hydra", "the schema gives every key a range"),
    (["n_epochs=null"], "hydra", "a run without an end"),
    (["~lr"], "hydra", "a run needs the key"),
    (["~wandb"], "hydra", "a run needs the keys in it"),
    (["~loss"], "hydra", "a run needs the keys in it"),
    (["~model"], "hydra", "a run needs the keys in it"),
    (["loss=[dpo]", "loss.beta=1"], "hydra", "a group has one preset"),
    (["+loss.beta=1"], "hydra", "sft has no beta"),
    (["lr=float(1)"], "hydra", "there are no functions"),
    (["hydra.run.dir=x"], "hydra", "Hydra's own settings"),
    (["+a/b=c"], "hydra", "keys are joined by dots"),
    (["~n_examples"], "dpo", "what is null already may be removed"),
    (["loss.name=dpo", "loss.beta=1"], "dpo", "keys exist by the schema, whichever preset was chosen"),
    (["exp_name=caf\u00e9"], "dpo", "letters of other scripts need no quotes"),
    (["exp_name=${oc.env:DPO_NOT_SET,${loss.name}}"], "dpo", "nested references need no quotes"),
    (["+x={'a': 1}"], "dpo", "names in maps may be quoted"),
    (["local_run_dir=~/x"], "dpo", "a path may begin with the home folder"),
    (["exp_name='a' "], "dpo", "blanks after a quote do no harm"),
]

# Arguments that both accept, with a value of another type: (words, key, ours, theirs).
OTHER_TYPE = [
    (["exp_name=123"], "exp_name", "123", 123),
    (["exp_name=1e5"], "exp_name", "100000.0", 100000.0),
    (["exp_name=true"], "exp_name", "true", True),
    (["batch_size=${oc.env:DPO_TEST_NUMBER}"], "batch_size", 8, "8"),
    (["batch_size=${oc.env:DPO_NOT_SET,7}"], "batch_size", 7, "7"),
]

# Scalars in a YAML file.
SCALARS = """0 -12 +12 1_000 0x1F 0b101 017 089 1:30 -1:30:00 1:99 0x _1 5e-7 1e5 1E5 1. .5 -1.5E+2 1_0.5 .inf -.INF .NaN
    -.5 .5e3 .5e+3 1e . ._ inf nan yes Yes YES yEs y n no No on On off OFF true True TRUE tRue false null Null NULL nULL ~
    '5' "5" 'null' 2024-01-01 12e03 1e+5 +.inf -.nan 0 00 -0 0.0 1__0 1_ abc a-b a.b /x/y 0o17 1,000 6.02e23 !!str&5
    !!float&5 !!int&7 123456789012345678901234567890 0xFFFFFFFFFF""".split()


def theirs(words: list[str]) -> dict | None:
    with initialize_config_dir(str(CONFIGS), version_base=None):
        try:
            config = compose("config", overrides=NEEDED + words)
            return OmegaConf.to_container(config, resolve=True, throw_on_missing=True)
        except Exception:  # Hydra, OmegaConf and ANTLR have no common base
            return None


def ours(words: list[str], *options: str) -> dict | None:
    answer = subprocess.run([PROGRAM, "config", "--json", *options, *words], capture_output=True, text=True)
    if answer.returncode not in (0, 1):
        raise AssertionError(f"{words}: exit status {answer.returncode}: {answer.stderr}")
    if answer.returncode == 1:
        return None
    values = json.loads(answer.stdout)
    del values["defaults"]  # only dpo has this key; in Hydra's files it is a list of presets
    return values


def comparable(value):
    """Writes infinities and large integers as text, since JSON lacks them and the program does so."""
    if isinstance(value, dict):
        return {str(key): comparable(each) for key, each in value.items()}
    if isinstance(value, list):
        return [comparable(each) for each in value]
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) >= 2**63:
        return str(value)
    return value


def typed(value):
    """Adds the type to a value, so that True and 1, or 1 and 1.0, are not equal."""
    return (type(value).__name__, value)


class Hydra(unittest.TestCase):
    maxDiff = None

    def test_accepted_with_equal_values(self) -> None:
        for words in EQUAL:
            with self.subTest(words=words):
                self.assertIsNotNone(theirs(words), "rejected by Hydra")
                self.assertEqual(ours(NEEDED + words), comparable(theirs(words)))

    def test_rejected_by_both(self) -> None:
        for words in REJECTED:
            with self.subTest(words=words):
                self.assertIsNone(theirs(words), "accepted by Hydra")
                self.assertIsNone(ours(NEEDED + words), "accepted by dpo")

    def test_deliberate_differences(self) -> None:
        for words, who, why in DIFFERENT:
            with self.subTest(words=words, why=why):
                self.assertEqual(theirs(words) is not None, who == "hydra")
                self.assertEqual(ours(NEEDED + words) is not None, who == "dpo")

    def test_other_types(self) -> None:
        for words, key, our_value, their_value in OTHER_TYPE:
            with self.subTest(words=words):
                self.assertEqual(typed(ours(NEEDED + words)[key]), typed(our_value))
                self.assertEqual(typed(theirs(words)[key]), typed(their_value))

    def test_scalars_of_files(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            lines = [f"v{i}: {scalar.replace('&', ' ')}" for i, scalar in enumerate(SCALARS)]
            path = Path(folder) / "scalars.yaml"
            path.write_text("".join(f"+{line}\n" for line in lines))
            got = ours(NEEDED, "--config", str(path))
            for i, line in enumerate(lines):
                with self.subTest(line=line):
                    expected = comparable(OmegaConf.to_container(OmegaConf.create(line))[f"v{i}"])
                    self.assertEqual(typed(got[f"v{i}"]), typed(expected))


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--dpo", default=os.environ.get("DPO_PROGRAM"))
    arguments, rest = parser.parse_known_args()
    if not arguments.dpo:
        parser.error("--dpo PROGRAM or the variable DPO_PROGRAM is needed")
    PROGRAM = arguments.dpo
    os.environ.update(ENVIRONMENT)
    os.environ.pop("DPO_NOT_SET", None)
    print(f"{len(EQUAL)} equal, {len(REJECTED)} rejected by both, {len(DIFFERENT)} deliberate differences, "
          f"{len(OTHER_TYPE)} of another type, {len(SCALARS)} scalars of files")
    unittest.main(argv=sys.argv[:1] + rest)
