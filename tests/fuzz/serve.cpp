// One input is a request to dpo serve, or a series of changes to a file that it follows. A request gets only
// files of the page or a run, and nothing at all without the token. Every whole line of a file is read once.
#include <array>
#include <filesystem>
#include <sstream>
#include <string>

#include <nlohmann/json.hpp>

#include "report/tail.h"
#include "serve/routes.h"
#include "target.h"
#include "temp_folder.h"

namespace fuzz::serve {
namespace {

namespace fs = std::filesystem;
using namespace dpo::serve;
using dpo::report::Tail;
using namespace std::string_literals;

const std::string kToken = "0123456789abcdef";
constexpr std::string_view kSecret = "a text of no run";

// A folder with a run, and a file next to it.
struct Folder {
  TempFolder folder;
  Runs runs;

  Folder() : runs(written()) {}

  std::vector<fs::path> written() const {
    for (const char* name : {"runs/run/eval", "runs/run/samples"})
      fs::create_directories(folder.path() / name);
    folder.write("secret.txt", kSecret);
    folder.write("runs/secret.txt", kSecret);
    folder.write("runs/run/config.yaml", kSecret);
    folder.write("runs/run/metrics.jsonl", "{\"loss/eval\": 0.5, \"counters/examples\": 32}\n");
    for (const char* name : {"runs/run/eval/step-0.jsonl", "runs/run/eval/step-32.jsonl"})
      folder.write(name, "{\"example\": 7, \"loss\": 0.5, \"logps\": [-3, -4], \"rewards\": [1.5, -2]}\n");
    folder.write("runs/run/eval_examples.jsonl",
                 "{\"example\": 7, \"prompt\": \"p\\n\", \"responses\": [\"a\", \"b\"]}\n");
    folder.write("runs/run/samples/step-32.jsonl", "{\"prompt\": \"p\", \"policy\": \"a\"}\n");
    return {folder.path() / "runs"};
  }
};

// Parses the lines of an input. ID stands for the id of the run.
std::pair<Request, std::string> parse(std::string_view input, const std::string& id) {
  Request request;
  std::istringstream lines{std::string(input)};
  const auto next = [&] {
    std::string line;
    std::getline(lines, line);
    return line;
  };
  request.method = next();
  request.path = next();
  if (const std::size_t at = request.path.find("ID"); at != std::string::npos)
    request.path.replace(at, 2, id);
  request.credentials = {next(), next(), next(), next(), next()};
  for (const char* name : {"step", "filter", "order", "from", "only", "runs"})
    request.parameters[name] = next();
  return {request, {std::istreambuf_iterator<char>(lines), {}}};
}

void check(const Answer& answer) {
  constexpr std::array kStatuses = {200, 303, 401, 404, 405, 421};
  if (std::ranges::find(kStatuses, answer.status) == kStatuses.end())
    fail("another status", std::to_string(answer.status));
  if (answer.body.find(kSecret) != std::string::npos) fail("a file of no run", answer.body);
  if (answer.type == "application/json" && !nlohmann::json::accept(answer.body))
    fail("not JSON", answer.body);
}

void check_prompt(const Prompt& prompt) {
  if (prompt.text.empty() || prompt.text.find('\0') != std::string::npos)
    fail("a prompt that cannot be passed on");
  if (!(prompt.temperature >= 0 && prompt.temperature <= 10)) fail("a temperature that is not valid");
  if (prompt.max_new_tokens < 1 || prompt.max_new_tokens > 4096) fail("a number of tokens that is not valid");
}

bool try_request(std::string_view input) {
  static Folder folder;
  static const std::string id = folder.runs.list().at(0).at("id");
  static const Guard local("127.0.0.1", 1, ""), guarded("0.0.0.0", 1, kToken);
  const auto describe = [](const Run& run) {
    return dpo::report::RunSource{run.folder, run.name, {}, "none"};
  };
  const auto [request, body] = parse(input, id);
  const Answer answer = answer_to({folder.runs, local, describe}, request);
  check(answer);
  const Answer other = answer_to({folder.runs, guarded, describe}, request);
  check(other);
  if (other.status != 401 && other.status != 421 && input.find(kToken) == input.npos)
    fail("no token was needed");
  for (const Guard* guard : {&local, &guarded})
    if (!refusal_of(*guard, request, true) &&
        request.credentials.origin != "http://" + request.credentials.host)
      fail("a change by another site", request.credentials.origin);
  accepts([&] { check_prompt(prompt_of(body)); });
  return answer.status == 200;
}

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::size_t begin = 0;
  for (std::size_t end; (end = text.find('\n', begin)) != text.npos; begin = end + 1)
    lines.push_back(text.substr(begin, end - begin));
  return lines;
}

void read(Tail& tail, std::vector<std::string>& lines) {
  for (bool more = true; more;) {
    const Tail::Part part = tail.next();
    if (part.restarted) lines.clear();
    lines.insert(lines.end(), part.lines.begin(), part.lines.end());
    more = part.more;
  }
}

// Each step of an input ends with '|': "R" replaces the file by the rest of the step, "C" cuts it in half,
// "D" removes it, anything else is added to it.
bool try_tail(std::string_view input) {
  static const TempFolder folder;
  const fs::path file = folder.path() / "log";
  fs::remove(file);
  Tail tail(file), last(file, 20);
  std::string content;
  std::vector<std::string> lines, last_lines;
  std::istringstream steps{std::string(input)};
  std::error_code none;
  for (std::string step; std::getline(steps, step, '|');) {
    if (step == "D" || step.starts_with('R')) {
      // The file is moved, not removed, so that a new file cannot get its inode number.
      fs::remove(folder.path() / "old");
      fs::rename(file, folder.path() / "old", none);
    }
    if (step == "D") continue;  // the lines read so far stay until there is another file
    if (!fs::exists(file)) content.clear();
    if (step == "C") {
      content.resize(content.size() / 2);
      fs::resize_file(file, content.size(), none);
    } else {
      const std::string added = step.substr(step.starts_with('R') ? 1 : 0);
      content += added;
      std::ofstream(file, std::ios::binary | std::ios::app) << added;
    }
    read(tail, lines), read(last, last_lines);
    const std::vector<std::string> expected = lines_of(content);
    if (lines != expected) fail("other lines than the file has", input);
    if (last_lines.size() > expected.size() ||
        !std::equal(last_lines.rbegin(), last_lines.rend(), expected.rbegin()))
      fail("other lines than the last", input);
  }
  return !lines.empty();
}

const std::string kRequests[] = {
    "GET\n/api/runs/ID/examples\nlocalhost:1\n\n\n\n\n32\np\nworst\n0\n\n\n",
    "GET\n/api/runs/ID/samples\n127.0.0.1:1\n\nBearer " + kToken + "\n\n\n\n\nnumber\n0\n0\n\n",
    "GET\n/api/runs/ID\n[::1]:1\n\n\na=b; dpo_serve_1=" + kToken + "\n\n\n\n\n\n\n\n",
    "GET\n/api/runs/ID/report\n192.0.2.1\n\n\n\n" + kToken + "\n\n\n\n\n\n\n",
    "GET\n/api/events\nlocalhost\n\n\n\n\n\n\n\n\n\nID,x,ID\n",
    "HEAD\n/\nlocalhost\n\n\n\n\n\n\n\n\n\n\n",
    "POST\n/api/try\nlocalhost:1\nhttp://localhost:1\n\n\n\n\n\n\n\n\n\n"
    R"({"run": "ID", "side": "reference", "prompt": "é", "chat": true, "temperature": 0.5, "max_new_tokens": 9})",
};
const std::string kSteps[] = {
    "{\"a\": 1}\n", "|",   "{\"a\"", ": 2}\n", "|R",
    "|C|",          "|D|", "\n",     "\n\n|",  "a long line of more than twenty bytes\n|"};
const std::string kTokens[] = {"..",
                               "../",
                               "/",
                               "%2e",
                               "%00",
                               "\\",
                               "\n",
                               ",",
                               "ID",
                               ":",
                               "::1",
                               "[",
                               "]",
                               "@",
                               ";",
                               "=",
                               "\0"s,
                               "\xff",
                               "-1",
                               "1e999",
                               "null",
                               "{",
                               "}",
                               "\"",
                               "secret.txt",
                               "config.yaml",
                               "127.0.0.1",
                               "localhost",
                               "evil.example",
                               "http://",
                               "99999999999999999999",
                               "18446744073709551615",
                               kToken};

std::string make_request(Mutator& mutator) {
  std::string text = mutator.pick(kRequests);
  mutator.mutate(text, kTokens, 5);
  return text;
}

std::string make_steps(Mutator& mutator) {
  std::string text;
  for (std::size_t n = 1 + mutator.below(20); n > 0; --n) text += mutator.pick(kSteps);
  return text;
}

const Registered kRequestTarget({"serve_request", make_request, try_request});
const Registered kTailTarget({"serve_tail", make_steps, try_tail});

}  // namespace
}  // namespace fuzz::serve
