// One input is either the arguments of a command line, one per line, or a configuration file. Only a
// UserError may escape, its messages must be printable lines, and an accepted input must survive being
// printed and read again.
#include <string>
#include <string_view>

#include "base/error.h"
#include "config/compose.h"
#include "config/print.h"
#include "memory_file.h"
#include "target.h"
#include "tokens.h"

namespace fuzz::config {
namespace {

using dpo::config::Request;
using dpo::config::Resolved;

Request request_of_words(std::string_view text) {
  Request request{{"exp_name=e", "model=gpt2-xl"}, {}, {}};
  for (std::size_t start = 0; start <= text.size();) {
    const std::size_t end = std::min(text.find('\n', start), text.size());
    request.overrides.emplace_back(text.substr(start, end - start));
    start = end + 1;
  }
  return request;
}

void check_round_trip(const Resolved& resolved) {
  const std::string yaml = to_yaml(resolved);
  const std::string json = to_json(resolved);
  const MemoryFile file(yaml);
  try {
    const Resolved again = dpo::config::compose({{}, file.path(), {}});
    if (to_json(again) != json) fail("read again, it differs", yaml + to_json(again));
  } catch (const dpo::UserError& error) {
    fail("read again, it is refused", yaml + error.what());
  }
}

bool try_request(const Request& request) {
  setenv("DPO_FUZZ", "8", 1);
  Resolved resolved;
  if (!accepts([&] { resolved = compose(request); })) return false;
  check_round_trip(resolved);
  return true;
}

bool try_words(std::string_view input) { return try_request(request_of_words(input)); }

bool try_file(std::string_view input) {
  const MemoryFile file(input);
  return try_request({{"++exp_name=e", "++model.name_or_path=m"}, file.path(), {}});
}

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

const Tokens kTokens = yaml_tokens({"=",
                                    "+",
                                    "++",
                                    "  ",
                                    "${",
                                    "${oc.env:",
                                    "${.",
                                    "???",
                                    "no",
                                    "1e5",
                                    "-",
                                    "20_000",
                                    "nan",
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
                                    "\x7f",
                                    "\xe2\x80\xa8",
                                    "9223372036854775808",
                                    "  - ",
                                    "+x",
                                    "exp_name"});

template <std::size_t N>
std::string make(Mutator& mutator, const std::string (&seeds)[N]) {
  std::string text = mutator.pick(seeds);
  if (mutator.below(3) == 0) text += "\n" + mutator.pick(seeds);
  mutator.mutate(text, kTokens, 5);
  return text;
}

std::string make_words(Mutator& mutator) { return make(mutator, kWordSeeds); }
std::string make_file(Mutator& mutator) { return make(mutator, kFileSeeds); }

const Registered kWords({"config_words", make_words, try_words});
const Registered kFile({"config_file", make_file, try_file});

}  // namespace
}  // namespace fuzz::config
