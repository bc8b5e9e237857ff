// Tests the messages for mistakes: they name the key, its value, the expected value, its origin and a
// suggestion.
#include <gtest/gtest.h>

#include "base/error.h"
#include "unit/config/helpers.h"

namespace dpo::config {
namespace {

struct BadWords {
  Words words;  // given after those that every run needs
  std::vector<std::string> fragments;
};

const BadWords kBadWords[] = {
    // Keys.
    {{"batchsize=4"}, {"batchsize: unknown key (command line: batchsize=4); did you mean 'batch_size'?"}},
    {{"beta=0.1"}, {"beta: unknown key", "did you mean 'loss.beta'?"}},
    {{"model.polcy_dtype=float32"}, {"model.polcy_dtype: unknown key", "did you mean 'model.policy_dtype'?"}},
    {{"learning_rate=1e-6"},
     {"learning_rate: unknown key (command line: learning_rate=1e-6); it is called 'lr' here"}},
    {{"zzzzzz=1"},
     {"zzzzzz: unknown key (command line: zzzzzz=1); to add it although nothing reads it, write +zzzzzz=1"}},
    {{"lr.x=1"}, {"lr.x: unknown key"}},
    {{"wandb={foo: 1}"}, {"wandb: unknown key 'wandb.foo' (command line: wandb={foo: 1})"}},
    {{"hydra.run.dir=x"}, {"hydra.run.dir: Hydra's own settings are not supported", "local_run_dir"}},
    {{"datasets.3=hh"}, {"datasets.3: index out of range, the list has 1 value", "datasets=[...]"}},
    {{"+lr=1"}, {"lr: already set to 5e-07 (command line: +lr=1); write lr=1 to change it"}},
    {{"+foo=1", "+foo=2"}, {"foo: already set to 1", "write foo=2"}},
    {{"~nope"}, {"nope: unknown key (command line: ~nope)"}},
    {{"~lr"}, {"lr: required, cannot be removed (command line: ~lr); give it another value: lr=..."}},
    {{"~wandb"}, {"wandb: required, cannot be removed"}},
    {{"~n_epochs=2"}, {"n_epochs: its value is 1, not 2 (command line: ~n_epochs=2)"}},
    // Types.
    {{"batch_size=abc"},
     {"batch_size: got 'abc', expected a whole number from 1 to 1000000000 (command line: batch_size=abc)"}},
    {{"batch_size='8'"}, {"batch_size: got '8', expected a whole number", "write it without quotes"}},
    {{"fp8=yes"}, {"fp8: got 'yes', expected true or false (command line: fp8=yes); write fp8=true"}},
    {{"fp8=off"}, {"; write fp8=false"}},
    {{"max_grad_norm=off"}, {"max_grad_norm: got 'off', expected a number > 0, or null", "; write null"}},
    {{"max_grad_norm=0"}, {"max_grad_norm: got 0, expected a number > 0, or null"}},
    {{"eval_every=no"}, {"; write null"}},
    {{"optimizer=AdamW", "optimizer_betas='[0.9,0.95]'"}, {"; write it without quotes"}},
    {{"fp8='true'"}, {"; write it without quotes"}},
    {{"adapter.rank=4"}, {"it is called 'adapter.r' here"}},
    {{"batch_size=1.5"}, {"batch_size: got 1.5, expected a whole number from 1 to 1000000000"}},
    {{"eval_every=2e4"}, {"eval_every: got 20000.0", "write eval_every=20000"}},
    {{"eval_every=None"},
     {"eval_every: got 'None', expected a whole number", "(command line: eval_every=None); write null"}},
    {{"datasets="},
     {"datasets: got '', expected a list of one or more data sets such as [hh] or [hh, my.jsonl] (command "
      "line: datasets=)"}},
    {{"data.columns.prompt=ask"},
     {"data.columns.prompt: unknown key (command line: data.columns.prompt=ask); a map is written as one "
      "value: "
      "data.columns={prompt: ask}"}},
    {{"eval_every=0"}, {"eval_every: got 0, expected a whole number from 1 to 1000000000, or null"}},
    {{"optimizer=AdamW", "optimizer_betas=0.9"},
     {"optimizer_betas: got 0.9, expected a list of two numbers >= 0 and < 1 such as [0.9, 0.95], or null"}},
    {{"optimizer=AdamW", "optimizer_betas=[0.9]"}, {"optimizer_betas: got [0.9], expected a list of two"}},
    {{"optimizer=AdamW", "optimizer_betas=[0.9,1]"},
     {"optimizer_betas: got [0.9, 1], expected a list of two"}},
    {{"optimizer=AdamW", "optimizer_betas=[a,b]"}, {"optimizer_betas: got [a, b], expected a list of two"}},
    {{"optimizer=AdamW", "optimizer_eps=0"}, {"optimizer_eps: got 0, expected a number > 0, or null"}},
    {{"weight_decay=-0.1"}, {"weight_decay: got -0.1, expected a number >= 0, or null"}},
    {{"batch_size=true"}, {"batch_size: got true, expected a whole number"}},
    {{"batch_size=null"}, {"batch_size: got null, expected a whole number"}},
    {{"batch_size="}, {"batch_size: got '', expected a whole number"}},
    {{"batch_size=[4]"}, {"batch_size: got [4], expected a whole number"}},
    {{"batch_size={a: 4}"}, {"batch_size: got {a: 4}, expected a whole number"}},
    {{"batch_size=99999999999999999999"}, {"batch_size: got 99999999999999999999, expected a whole number"}},
    {{"lr=fast"}, {"lr: got 'fast', expected a number > 0"}},
    {{"debug=yes"}, {"debug: got 'yes', expected true or false (command line: debug=yes)"}},
    {{"debug=1"}, {"debug: got 1, expected true or false"}},
    {{"activation_checkpointing=some"},
     {"activation_checkpointing: got 'some', expected true, false, auto, or a number of layers"}},
    {{"fp8=e4m3"}, {"fp8: got 'e4m3', expected true or false"}},
    {{"activation_checkpointing=-1"}, {"activation_checkpointing: got -1"}},
    {{"datasets=hh"},
     {"datasets: got 'hh', expected a list of one or more data sets", "write datasets=[hh]"}},
    {{"datasets=[[hh]]"}, {"datasets: got [[hh]], expected a list of one or more data sets"}},
    {{"model.name_or_path=[a]"}, {"model.name_or_path: got [a], expected a folder or a Hugging Face name"}},
    {{"wandb=5"}, {"wandb: got 5, expected a map of keys (command line: wandb=5)"}},
    {{"+lr.x=2"}, {"lr: got {x: 2}, expected a number > 0 and <= 1e+38 (command line: +lr.x=2)"}},
    // Ranges.
    {{"batch_size=0"},
     {"batch_size: got 0, expected a whole number from 1 to 1000000000 (command line: batch_size=0)"}},
    {{"seed=-1"}, {"seed: got -1, expected a whole number >= 0"}},
    {{"data_seed=4294967296"}, {"data_seed: got 4294967296, expected a whole number from 0 to 4294967295"}},
    {{"fsdp_port=0"}, {"fsdp_port: got 0, expected a whole number from 1 to 65535, or null"}},
    {{"fsdp_port=65536"}, {"fsdp_port: got 65536, expected a whole number from 1 to 65535"}},
    {{"lr=0"}, {"lr: got 0, expected a number > 0"}},
    {{"lr=nan"}, {"lr: got nan, expected a number > 0"}},
    {{"lr=inf"}, {"lr: got inf, expected a number > 0"}},
    {{"lr=1e308"}, {"lr: got 1e+308, expected a number > 0 and <= 1e+38"}},
    {{"lr=1e999"}, {"lr: got 1e999, expected a number > 0"}},
    {{"minimum_log_interval_secs=-1"}, {"minimum_log_interval_secs: got -1, expected a number >= 0"}},
    {{"datasets=[]"}, {"datasets: got [], expected a list of one or more data sets"}},
    {{"datasets=[hh,'']"}, {"datasets: got [hh, ''], expected a list of one or more data sets"}},
    {{"data.columns={promt: q}"},
     {"data.columns: got {promt: q}, expected a map of columns",
      "unknown name 'promt', expected one of prompt, chosen", "did you mean 'prompt'?"}},
    {{"data.limits={hh: 0}"}, {"data.limits: got {hh: 0}, expected a map of whole numbers >= 1"}},
    {{"exp_name="}, {"exp_name: got '', expected a name for the run's folder"}},
    {{"exp_name=../up"}, {"exp_name: got '../up', expected a name for the run's folder", "no '..'"}},
    {{"exp_name=/abs"}, {"exp_name: got '/abs'", "no leading '/'"}},
    {{"loss=dpo", "loss.beta=-1"}, {"loss.beta: got -1, expected a number > 0"}},
    {{"loss=dpo", "loss.beta=1", "loss.label_smoothing=0.5"},
     {"loss.label_smoothing: got 0.5, expected a number >= 0 and < 0.5"}},
    {{"~n_epochs"},
     {"n_epochs, n_examples: both are null (command line: ~n_epochs; default)", "set n_epochs=1"}},
    // Names from a fixed set.
    {{"trainer=FSDP"},
     {"trainer: got 'FSDP', expected one of BasicTrainer, FSDPTrainer, TensorParallelTrainer"}},
    {{"trainer=FDSPTrainer"}, {"did you mean 'FSDPTrainer'?"}},
    {{"optimizer=SGD", "optimizer_betas=[0.9,0.95]"},
     {"optimizer_betas applies only to optimizer=Adam, AdamW; the optimizer is SGD (command line: "
      "optimizer_betas=[0.9,0.95])"}},
    {{"optimizer_betas=[0.9,0.95]"}, {"optimizer=Adam, AdamW; the optimizer is RMSprop"}},
    {{"optimizer=Adafactor", "optimizer_eps=1e-6"},
     {"optimizer_eps applies only to optimizer=RMSprop, Adam, AdamW; the optimizer is Adafactor"}},
    {{"adapter.r=8"},
     {"adapter.r applies only to adapter=lora; the adapter is none (command line: adapter.r=8)"}},
    {{"adapter=lora", "adapter.r=0"}, {"adapter.r: got 0, expected a whole number from 1 to 65536"}},
    {{"adapter=lora", "adapter.base_dtype=int4"},
     {"adapter.base_dtype: got 'int4', expected one of nf4, int8, fp8"}},
    {{"adapter=lora", "adapter.targets=q_proj"},
     {"adapter.targets: got 'q_proj', expected a list of one or more modules",
      "write adapter.targets=[q_proj]"}},
    {{"adapter=lora", "adapter.targets=[]"}, {"adapter.targets: got [], expected a list of one or more"}},
    {{"adapter=lora", "adapter.rank_pattern={q_proj: 0}"}, {"adapter.rank_pattern: got {q_proj: 0}"}},
    {{"adapter=lora", "adapter.rank_pattern={q_proj: 65537}"},
     {"adapter.rank_pattern: got {q_proj: 65537}, expected a map of whole numbers from 1 to 65536"}},
    {{"adapter=dora"}, {"adapter: there is no preset 'dora', expected one of lora, none"}},
    {{"optimizer=Lion"}, {"optimizer: got 'Lion', expected one of RMSprop, Adam, AdamW, SGD, Adafactor"}},
    {{"model.policy_dtype=bf16"},
     {"model.policy_dtype: got 'bf16', expected one of float32, bfloat16, float16"}},
    {{"model.fsdp_policy_mp=float64"}, {"model.fsdp_policy_mp: got 'float64'", "or null"}},
    {{"model.fsdp_policy_mp=flaot32"}, {"did you mean 'float32'?"}},
    {{"reference=online"}, {"reference: got 'online', expected one of auto, live, cached"}},
    {{"loss.name=dop"}, {"loss.name: got 'dop', expected one of sft, dpo, ipo", "did you mean 'dpo'?"}},
    // Presets.
    {{"model=pythia27"},
     {"model: there is no preset 'pythia27', expected one of blank_model, gemma3-1b",
      "(command line: model=pythia27); a folder is model=./NAME, a model of the Hugging Face hub "
      "model=ORG/NAME"}},
    {{"model=pythai28"}, {"; did you mean 'pythia28'?; a folder"}},
    {{"loss=sigmoid"}, {"loss: there is no preset 'sigmoid'", "; TRL's sigmoid is loss=dpo"}},
    {{"pref_ftx=1", "packing=true"},
     {"it is called 'loss.alpha' here", "(command line: packing=true); sequences are always packed"}},
    {{"resume_from_checkpoint=true"}, {"it is called 'resume' here, and is auto or a folder: resume=auto"}},
    {{"loss=koto"}, {"loss: there is no preset 'koto', expected one of aot, apo_down, "}},
    {{"loss=../model/pythia28"}, {"loss: there is no preset '../model/pythia28'"}},
    {{"loss=null"}, {"loss: got null, expected the name of one preset (command line: loss=null)"}},
    {{"loss=[sft,dpo]"}, {"loss: got [sft, dpo], expected the name of one preset"}},
    {{"loss="}, {"loss: got '', expected the name of one preset"}},
    {{"+loss=dpo"}, {"loss: a preset is already chosen; write loss=NAME without '+'"}},
    {{"++loss=dpo"}, {"loss: a preset is already chosen"}},
    {{"~loss"},
     {"loss: required, cannot be removed; choose another preset: loss=NAME (command line: ~loss)"}},
    {{"loss=sft", "loss.beta=0.1"},
     {"loss.beta applies to every loss but sft; the loss is sft (command line: loss.beta=0.1)"}},
    {{"+loss.beta=0.1"}, {"loss.beta applies to every loss but sft; the loss is sft"}},
    {{"loss=ipo", "loss.beta=1", "loss.reference_free=true"},
     {"loss.reference_free applies only to loss=dpo; the loss is ipo"}},
    // Required values.
    {{"loss=dpo"},
     {"loss.beta: required; set loss.beta=VALUE, where VALUE is a number > 0 (loss/dpo.yaml:2)"}},
    {{"exp_name=???"}, {"exp_name: required; set exp_name=VALUE", "(command line: exp_name="}},
    {{"model=blank_model"},
     {"model.name_or_path: required",
      "give model=FOLDER or model=ORG/NAME, or choose a preset (model=NAME: gemma3-1b"}},
    // The grammar of arguments.
    {{"lr"}, {"lr: missing '='; expected KEY=VALUE (command line)"}},
    {{""}, {"missing key; expected KEY=VALUE"}},
    {{"=5"}, {"=5: missing key; expected KEY=VALUE"}},
    {{"+"}, {"+: missing key"}},
    {{"lr =5"}, {"lr =5: ' ' at character 3 cannot be part of a key"}},
    {{"a..b=1"}, {"a..b=1: '.' at character 3 cannot be part of a key"}},
    {{"a.=1"}, {"a.=1: the key ends in a dot"}},
    {{"1a=1"}, {"1a=1: '1' at character 1 cannot be part of a key"}},
    {{"model@x=gptj"}, {"model@x=gptj: packages (group@package) are not supported"}},
    {{"lr=1e-6,1e-5"}, {"lr=1e-6,1e-5: several values are a sweep", "[a,b]"}},
    {{"lr=choice(1,2)"}, {"lr=choice(1,2): choice() is a sweep", "write one value"}},
    {{"lr=range(1,5)"}, {"range() is a sweep"}},
    {{"lr=int(5)"}, {"'(' at character 7 starts a function, which is not supported"}},
    {{"exp_name=a=b"}, {"exp_name=a=b: '=' at character 11 is not expected here", "put the value in quotes"}},
    {{"exp_name=~/x"}, {"exp_name: got '~/x', expected a name for the run's folder"}},
    {{"exp_name=a~b"}, {"'~' at character 11"}},
    {{"exp_name='a"}, {"exp_name='a: the quote ' is not closed"}},
    {{"exp_name='a'b"}, {"'b' at character 13 is not expected here"}},
    {{"datasets=[hh"}, {"datasets=[hh: the list is not closed; expected ']'"}},
    {{"datasets=[hh,"}, {"the list is not closed"}},
    {{"datasets=[hh,]"}, {"datasets=[hh,]: ']' at character 14 is found where a value is expected"}},
    {{"datasets=[hh}"}, {"'}' at character 13 is not expected here; expected ',' or ']'"}},
    {{"wandb={enabled}"}, {"a map is written {name: value}; missing ':'"}},
    {{"wandb={enabled: true"}, {"the map is not closed; expected '}'"}},
    {{"wandb={enabled:"}, {"the map is not closed"}},
    {{"lr=${lr"}, {"lr=${lr: '${' is not closed; expected '}'"}},
    {{"lr=5\n"}, {"lr=5\\x0a: '\\x0a' at character 5 is not expected here"}},
    {{std::string("lr=5\0", 5)}, {"lr=5: byte 0x00 is not allowed"}},
    {{"exp_name=\xff"}, {"exp_name=: byte 0xff is not allowed; expected UTF-8"}},
    // References.
    {{"max_length=${max_lenght}"},
     {"max_length: got '${max_lenght}': unknown key 'max_lenght'; did you mean 'max_length'? (command "
      "line: "}},
    {{"seed=${seed}"}, {"seed: got '${seed}': it refers to itself"}},
    {{"seed=${foo:1}"}, {"seed: got '${foo:1}': unknown resolver 'foo', expected oc.env or a key"}},
    {{"seed=${oc.env:DPO_NOT_SET}"},
     {"seed: got", "the environment variable DPO_NOT_SET is not set", "${oc.env:DPO_NOT_SET,default}"}},
    {{"seed=${oc.env:A,b,c}"}, {"oc.env takes a name and at most one default"}},
    {{"seed=${oc.env:DPO_TEST_WORD}"},
     {"seed: got 'word', expected a whole number >= 0 (environment variable DPO_TEST_WORD)"}},
    {{"seed=${oc.env:DPO_NOT_SET,word}"},
     {"seed: got 'word', expected a whole number >= 0 (environment variable DPO_NOT_SET (not "
      "set: its "
      "default))"}},
    {{"local_run_dir='${get_local_run_dir:${exp_name},${local_dirs}}'"},
     {"get_local_run_dir of direct-preference-optimization", "local_run_dir=null"}},
};

TEST(BadInput, Words) {
  const Variable variable("DPO_TEST_WORD", "word");
  for (const BadWords& bad : kBadWords) {
    const std::string problems = problems_of({with_needed(bad.words), {}, {}});
    for (const std::string& fragment : bad.fragments)
      EXPECT_NE(problems.find(fragment), std::string::npos)
          << "expected: " << fragment << "\ngot: " << problems;
  }
}

// These messages have no suggestion: an empty value is neither quoted nor called a list.
TEST(BadInput, WordsWithoutAHint) {
  for (const std::string word : {"lr=", "n_epochs=", "fp8=", "datasets=None", "lr=yes"})
    EXPECT_TRUE(problems_of({with_needed({word}), {}, {}}).ends_with("(command line: " + word + ")")) << word;
}

struct BadFile {
  std::string text;
  std::vector<std::string> fragments;
};

const BadFile kBadFiles[] = {
    {"learning_rate: 1\n", {"learning_rate: unknown key (FILE:1); it is called 'lr' here"}},
    {"lr: 1\nbatchsize: 4\n", {"batchsize: unknown key (FILE:2); did you mean 'batch_size'?"}},
    {"qqqqqq: 4\n", {"qqqqqq: unknown key (FILE:1); to keep an unused key, write +qqqqqq"}},
    {"model:\n  polcy_dtype: x\n",
     {"model.polcy_dtype: unknown key (FILE:2)", "did you mean 'model.policy_dtype'?"}},
    {"batch_size: x\n", {"batch_size: got 'x', expected a whole number from 1 to 1000000000 (FILE:1)"}},
    {"\n\nbatch_size: '8'\n", {"batch_size: got '8'", "(FILE:3); write it without quotes"}},
    {"batch_size: yes\n", {"batch_size: got true, expected a whole number from 1 to 1000000000 (FILE:1)"}},
    {"lr: 1e999\n", {"lr: got 1e999, expected a number > 0 and <= 1e+38 (FILE:1)"}},
    {"model: pythia28\n",
     {"model: got 'pythia28', expected a map of keys (FILE:1); to choose a preset write 'defaults: [_self_, "
      "model: NAME]'"}},
    {"wandb: off\n", {"wandb: got false, expected a map of keys (FILE:1)"}},
    {"hydra: {run: {dir: x}}\n", {"hydra: Hydra's own settings are not supported; remove them (FILE:1)"}},
    {"loss: {name: sft, beta: 0.1}\n", {"loss.beta applies to every loss but sft; the loss is sft (FILE:1)"}},
    {"defaults: pythia28\n", {"defaults: got 'pythia28', expected one of original, modern (FILE:1)"}},
    {"defaults: [pythia28]\n",
     {"defaults: got 'pythia28', expected _self_, 'model: NAME', 'loss: NAME' or 'adapter: NAME' (FILE:1)"}},
    {"defaults: [5]\n", {"defaults: got 5, expected _self_ or a line such as 'model: pythia28' (FILE:1)"}},
    {"defaults:\n- loss: dop\n",
     {"loss: there is no preset 'dop', expected one of aot, ",
      "simpo, sppo_hard (FILE:2); did you mean 'dpo'?"}},
    {"defaults:\n- override model: gptj\n", {"defaults: got 'override model'"}},
    {"seed: 1\nseed: 2\n", {"FILE:2:1: 'seed' is given twice, first in line 1"}},
    {"seed: 1\n+seed: 2\n", {"'seed' is given twice, with and without '+' (FILE:2)"}},
    {"lr: [1\n", {"FILE:"}},
    {"wandb:\n\tenabled: true\n", {"FILE:2:", "the line is indented with a tab, and YAML needs spaces"}},
    {"- lr\n", {"FILE: got [lr] at the top level, expected a map"}},
    {"seed: ${oc.env:DPO_NOT_SET}\n",
     {"seed: got", "the environment variable DPO_NOT_SET is not set", "(FILE:1)"}},
};

TEST(BadInput, Files) {
  const TempFolder folder;
  for (const BadFile& bad : kBadFiles) {
    const auto file = folder.write("bad.yaml", bad.text);
    const std::string problems = problems_of({{"exp_name=e", "++model.name_or_path=m"}, file, {}});
    for (std::string fragment : bad.fragments) {
      if (const std::size_t at = fragment.find("FILE"); at != std::string::npos)
        fragment.replace(at, 4, file.string());
      EXPECT_NE(problems.find(fragment), std::string::npos)
          << "expected: " << fragment << "\ngot: " << problems;
    }
  }
}

TEST(BadInput, ASectionThatIsAValueIsReportedOnce) {
  const TempFolder folder;
  const std::string problems = problems_of({{"exp_name=e"}, folder.write("bad.yaml", "loss: dpo\n"), {}});
  EXPECT_EQ(problems.find("expected a map of keys"), problems.rfind("expected a map of keys")) << problems;
  EXPECT_NE(problems.find("to choose a preset write"), std::string::npos) << problems;
}

TEST(BadInput, FilesAndFoldersThatAreNotThere) {
  const TempFolder folder;
  const std::string missing = (folder.path() / "missing.yaml").string();
  EXPECT_EQ(problems_of({{}, missing, {}}),
            "configuration: cannot read " + missing + ": No such file or directory");
  EXPECT_EQ(problems_of({{}, folder.path(), {}}),
            "configuration: " + folder.path().string() + " is a folder, expected a file");
  EXPECT_EQ(problems_of({{}, {}, {missing}}), "--config-dir: " + missing + " is not a folder");
}

TEST(BadInput, PresetsOfTheUsersOwn) {
  const TempFolder folder;
  folder.write("model/a.yaml", "defaults: [b]\n");
  folder.write("model/b.yaml", "defaults: [a]\n");
  folder.write("model/c.yaml", "defaults: [{loss: dpo}]\n");
  folder.write("model/d.yaml", "name_or_path: d\nfoo: 1\n");
  folder.write("model/e.yaml", "[1]\n");
  const auto problems = [&](const std::string& word) {
    return problems_of({{"exp_name=e", word}, {}, {folder.path()}});
  };
  EXPECT_NE(problems("model=a").find("model: the preset 'a' builds on itself ("), std::string::npos);
  EXPECT_NE(problems("model=c").find("expected the name of another model preset or _self_"),
            std::string::npos);
  EXPECT_NE(problems("model=d").find("model.foo: unknown key ("), std::string::npos);
  EXPECT_NE(problems("model=e").find("e.yaml: got [1] at the top level"), std::string::npos);
  EXPECT_NE(problems("model=zz").find("expected one of a, b, blank_model, c, d, e, gemma3-1b"),
            std::string::npos);
}

TEST(BadInput, ARequiredKeyThatDoesNotParseIsReportedOnce) {
  EXPECT_EQ(problems_of({{"exp_name=[", "++model.name_or_path=m"}, {}, {}}),
            "exp_name=[: the list is not closed; expected ']' (command line)");
}

TEST(BadInput, HostileWords) {
  const auto problems = [](const std::string& word) { return problems_of({with_needed({word}), {}, {}}); };
  EXPECT_NE(problems("+a=" + std::string(100'000, '[')).find("nested more than 64 levels deep"),
            std::string::npos);
  std::string maps = "+a=";
  for (int i = 0; i < 100'000; ++i) maps += "{a:";
  EXPECT_NE(problems(maps).find("nested more than 64 levels deep"), std::string::npos);
  std::string key = "+a";
  for (int i = 0; i < 100; ++i) key += ".a";
  EXPECT_NE(problems(key + "=1").find("the key has more than 64 parts"), std::string::npos);
  EXPECT_NE(problems("+" + std::string(300, 'k') + "=1").find("the key is longer than 256 characters"),
            std::string::npos);
  EXPECT_LT(problems(std::string(100'000, 'x') + "=1").size(), 500u) << "messages stay short";
}

TEST(BadInput, AnUnknownPresetIsTheOnlyProblem) {
  const TempFolder folder;
  const auto file =
      folder.write("f.yaml", "defaults: [model: nope, _self_]\nmodel: {policy_dtype: bfloat16}\n");
  const std::string problems = problems_of({{"exp_name=e", "model.archive=a"}, file, {}});
  EXPECT_NE(problems.find("model: there is no preset 'nope'"), std::string::npos);
  EXPECT_EQ(problems.find('\n'), std::string::npos)
      << "its keys must not be reported as missing: " << problems;
}

TEST(BadInput, AllProblemsAreReportedTogether) {
  try {
    compose({{"batchsize=4", "lr=abc", "model=pythia27", "model.archive=x", "loss.beta=1", "debug=maybe",
              "lr=1,2"},
             {},
             {}});
    FAIL();
  } catch (const UserError& error) {
    // The unknown preset must not make its own keys count as missing too. exp_name is missing, though.
    EXPECT_EQ(error.problems().size(), 7u) << error.what();
  }
}

}  // namespace
}  // namespace dpo::config
