#pragma once

#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "report/run_report.h"
#include "serve/guard.h"
#include "serve/runs.h"

namespace dpo::serve {

struct Request {
  std::string method = "GET";
  std::string path = {};
  std::map<std::string, std::string> parameters = {};  // after the '?', decoded
  Credentials credentials = {};
};

struct Answer {
  int status = 200;
  std::string type = {}, body = {};
  std::vector<std::pair<std::string, std::string>> headers = {};
  std::vector<Run> events_of = {};  // with is_events, an endless EventStream of these runs is sent
  bool is_events = false;
};

enum class Side { policy, reference };

// A viewer's prompt for a model of a run.
struct Prompt {
  std::string run;  // the run's id
  Side side = Side::policy;
  std::string text;
  bool chat = false;  // true: the text is a message; false: the model continues the text
  double temperature = 1;
  std::int64_t max_new_tokens = 200;
};

// Parses the body of a request, a JSON object. Throws UserError if it is invalid.
Prompt prompt_of(const std::string& body);

// Returns the line of JSON that dpo sample reads from stdin.
std::string line_of(const Prompt& prompt);

// Data for the answers.
struct Site {
  Runs& runs;
  const Guard& guard;
  // Returns name and settings of a run, for its view and its report.
  std::function<report::RunSource(const Run&)> describe;
};

// Answers a request that only reads. Requests name runs by id, and steps and examples by number, so no path
// is built from a request.
Answer answer_to(const Site& site, const Request& request);

// refusal_of returns the answer if a request is refused, else nullopt. common_headers returns the headers
// that every answer has.
std::optional<Answer> refusal_of(const Guard& guard, const Request& request, bool changes);
std::vector<std::pair<std::string, std::string>> common_headers();

// Returns the text of a page file such as "serve.js", or "" if there is none.
std::string_view page_file(std::string_view name);

}  // namespace dpo::serve
