// Runs the fuzz target without libFuzzer on a fixed series of inputs: valid ones, spoilt by mutations that
// know the grammar. Usage: config_fuzz [COUNT [SEED [words|file]]]
#include <cstdio>
#include <cstdlib>
#include <string>

#include "config_fuzz.h"
#include "mutate.h"

namespace {

using namespace std::string_literals;

const std::string kWordSeeds[] = {
    "lr=5e-7",
    "loss=dpo\nloss.beta=0.1",
    "model=pythia28\nmodel.archive=run/LATEST/policy.pt",
    "datasets=[hh,shp]",
    "wandb={enabled: false, entity: null}",
    "+new.key=[1, {a: b, c: [d]}]",
    "++batch_size=20_000",
    "~n_epochs\nn_examples=100",
    "~wandb.entity=null",
    "exp_name='a b'",
    "exp_name=\"it\\'s \\\"quoted\\\" \\\\\"",
    "exp_name=${oc.env:DPO_FUZZ,default}",
    "batch_size=${oc.env:DPO_FUZZ}",
    "max_length=${max_prompt_length}",
    "exp_name=run-${lr}-${loss.name}",
    "+a=${b}\n+b=${a}",
    "+a={x: ${.y}, y: 2}\n+b=[${a.x}, ${a}]",
    "exp_name=a\\,b\\ c",
    "loss=ipo\nloss.beta=???",
    "model=[pythia28]",
    "seed=-1\nlr=nan\nmax_grad_norm=inf",
    "datasets.0=shp",
    "data.columns={prompt: q, chosen: a}\ndata.weights={hh: 0.5}",
    "+x=choice(a,b)",
    "exp_name=\\${lr}",
};

const std::string kFileSeeds[] = {
    "defaults: [_self_, {model: pythia28}, {loss: dpo}]\nloss: {beta: 0.1}\n",
    "defaults:\n  - model: gptj\n  - _self_\nlr: 1e-5\nmodel:\n  policy_dtype: bfloat16\n",
    "lr: 5e-7\nbatch_size: 0x10\neval_every: 1:30\ndebug: yes\n",
    "datasets: &names [hh, shp]\nlocal_dirs: *names\n",
    "wandb: &w {enabled: off}\n+other: {<<: *w, x: 1}\n",
    "loss:\n  name: dpo\n  beta: 0.1\n  label_smoothing: .1\n",
    "# comment\nexp_name: \"quoted \\u00e9 \\n text\"\nn_examples: ~\n",
    "local_run_dir: |\n  folded\n  text\n",
    "local_dirs:\n- a\n- >-\n  b\n  c\n",
    "+extra:\n  - {a: 1}\n  - [2.5, .inf, null, !!str 5]\n  - ${oc.env:DPO_FUZZ}\n",
    "max_length: ${oc.env:DPO_FUZZ}\nmax_prompt_length: ${max_length}\n",
    "+a: &a [x, x]\n+b: &b [*a, *a]\n+c: [*b, *b]\n",
    "? lr\n: 1\n? [a, b]\n: 2\n",
    "data:\n  columns: {prompt: q}\n  weights:\n    hh: 2\n",
    "--- \nseed: 1\n...\n",
};

const std::string kTokens[] = {
    "=",
    "+",
    "++",
    "~",
    "[",
    "]",
    "{",
    "}",
    "'",
    "\"",
    "\\",
    ",",
    ":",
    ": ",
    "\n",
    "  ",
    "\t",
    "- ",
    "#",
    "${",
    "}",
    "${oc.env:",
    "${.",
    "???",
    "null",
    "true",
    "no",
    "1e5",
    "-",
    "0",
    "20_000",
    ".inf",
    "nan",
    "&a ",
    "*a",
    "<<: ",
    "!!int ",
    "|\n",
    ">\n",
    "? ",
    "---\n",
    "...\n",
    "%YAML 1.2\n",
    "model",
    "loss",
    "beta",
    "lr",
    "defaults",
    "_self_",
    "dpo",
    "pythia28",
    "wandb",
    ".",
    "/",
    "..",
    "$",
    "@",
    "(",
    ")",
    "choice(",
    "\xc3\xa9",
    "\xff",
    "\x7f",
    "\r\n",
    "\xef\xbb\xbf",
    "\xe2\x80\xa8",
    "9223372036854775808",
    "1e999",
    "\\u0000",
    "\\",
    "  - ",
    "+x",
    "exp_name",
    "\0"s,
};

template <std::size_t N>
std::string make(fuzz::Mutator& mutator, const std::string (&seeds)[N]) {
  std::string text = mutator.pick(seeds);
  if (mutator.below(3) == 0) text += "\n" + mutator.pick(seeds);
  mutator.mutate(text, kTokens, 5);
  return text;
}

}  // namespace

int main(int argc, char** argv) {
  const long count = argc > 1 ? std::atol(argv[1]) : 20000;
  const std::uint64_t seed = argc > 2 ? std::strtoull(argv[2], nullptr, 10) : 1;
  const std::string only = argc > 3 ? argv[3] : "";
  fuzz::Mutator mutator(seed);
  long runs[2] = {0, 0};
  long accepted[2] = {0, 0};
  for (long i = 0; i < count; ++i) {
    if (i > 0 && i % 100'000 == 0) std::fprintf(stderr, "%ld inputs\n", i);
    const bool file = only.empty() ? i % 2 == 1 : only == "file";
    const std::string input = file ? make(mutator, kFileSeeds) : make(mutator, kWordSeeds);
    ++runs[file];
    accepted[file] += try_input(file ? InputKind::File : InputKind::Words, input);
  }
  std::printf("command lines: %ld, accepted %ld; files: %ld, accepted %ld\n", runs[0], accepted[0], runs[1],
              accepted[1]);
  return accepted[0] + accepted[1] > 0 ? 0 : 1;
}
