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
  std::vector<Run> events_of = {};  // instead of a body: an endless EventStream of these runs
  bool is_events = false;
};

// What a viewer asks a model of a run.
enum class Side { policy, reference };
struct Prompt {
  std::string run;  // an id
  Side side = Side::policy;
  std::string text;
  bool chat = false;  // the text is a message, not the beginning of a text
  double temperature = 1;
  std::int64_t max_new_tokens = 200;
};

// Reads it from the body of a request, a JSON object; a UserError if it is not a valid one.
Prompt prompt_of(const std::string& body);

// The line from which dpo sample reads its text.
std::string line_of(const Prompt& prompt);

// What the answers are made from.
struct Site {
  Runs& runs;
  const Guard& guard;
  // Name and settings of a run, for its view and its report.
  std::function<report::RunSource(const Run&)> describe;
};

// The answer to a request that reads. Runs are named by their ids, steps and examples by numbers: no path is
// built from a request.
Answer answer_to(const Site& site, const Request& request);

// Whether a request is refused, and with which answer; headers that every answer has.
std::optional<Answer> refusal_of(const Guard& guard, const Request& request, bool changes);
std::vector<std::pair<std::string, std::string>> common_headers();

// A file of the page, such as "serve.js"; empty if there is none.
std::string_view page_file(std::string_view name);

}  // namespace dpo::serve
