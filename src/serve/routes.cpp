#include "serve/routes.h"

#include <algorithm>
#include <array>
#include <charconv>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/parse_json.h"
#include "report/chart.h"
#include "report/style.h"
#include "serve/page_files.h"
#include "serve/views.h"

namespace dpo::serve {
namespace {

using nlohmann::json;

Answer problem(int status, const std::string& text) {
  return {.status = status, .type = "text/plain; charset=utf-8", .body = text + "\n"};
}

Answer json_answer(const json& value) {
  return {.type = "application/json", .body = value.dump(-1, ' ', false, json::error_handler_t::replace)};
}

std::string parameter(const Request& request, const char* name) {
  const auto found = request.parameters.find(name);
  return found == request.parameters.end() ? "" : found->second;
}

// Returns a parameter that is a number of 0 or more in digits only.
std::optional<std::int64_t> number(const Request& request, const char* name) {
  const std::string text = parameter(request, name);
  std::int64_t value = 0;
  const auto parsed = std::from_chars(text.data(), text.data() + text.size(), value);
  if (parsed.ec != std::errc() || parsed.ptr != text.data() + text.size() || value < 0) return std::nullopt;
  return value;
}

Question question_of(const Request& request) {
  Question question{.step = number(request, "step"),
                    .filter = parameter(request, "filter").substr(0, 1000),
                    .from = static_cast<std::size_t>(number(request, "from").value_or(0)),
                    .only = number(request, "only")};
  if (const std::string order = parameter(request, "order"); !order.empty()) question.order = order;
  return question;
}

// Answers requests for the files of the page, which have fixed addresses.
std::optional<Answer> page_answer(const std::string& path) {
  struct File {
    std::string_view path, name, type;
  };
  constexpr std::array kFiles = {
      File{"/", "index.html", "text/html; charset=utf-8"},
      File{"/curves.js", "curves.js", "text/javascript; charset=utf-8"},
      File{"/serve.js", "serve.js", "text/javascript; charset=utf-8"},
      File{"/serve.css", "serve.css", "text/css; charset=utf-8"},
      File{"/uplot.js", "uplot/uPlot.iife.min.js", "text/javascript; charset=utf-8"},
      File{"/uplot.css", "uplot/uPlot.min.css", "text/css; charset=utf-8"},
      File{"/uplot-license.txt", "uplot/LICENSE", "text/plain; charset=utf-8"}};
  if (path == "/report.css")
    return Answer{.type = "text/css; charset=utf-8", .body = std::string(report::kStyle)};
  for (const File& file : kFiles)
    if (file.path == path)
      return Answer{.type = std::string(file.type), .body = std::string(page_file(file.name))};
  return std::nullopt;
}

// The report has its own script and style, which its own policy allows. The sandbox gives it an origin of its
// own, so its script cannot reach this server.
Answer report_answer(const report::RunSource& source, const report::FollowedRun& followed) {
  Answer answer{.type = "text/html; charset=utf-8", .body = report::run_page(source, followed)};
  answer.headers.emplace_back("Content-Security-Policy", "sandbox allow-scripts; frame-ancestors 'none'");
  return answer;
}

Answer events_answer(const Site& site, const Request& request) {
  Answer answer{.type = "text/event-stream", .is_events = true};
  std::string_view rest =
      request.parameters.contains("runs") ? std::string_view(request.parameters.at("runs")) : "";
  while (!rest.empty() && answer.events_of.size() < report::kMostCurves) {
    const std::size_t end = std::min(rest.find(','), rest.size());
    if (const auto run = site.runs.find(std::string(rest.substr(0, end)))) answer.events_of.push_back(*run);
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
  return answer;
}

// Answers "/api/runs/ID/VIEW".
Answer run_answer(const Site& site, const Request& request, std::string_view rest) {
  const std::size_t slash = std::min(rest.find('/'), rest.size());
  const auto run = site.runs.find(std::string(rest.substr(0, slash)));
  if (!run) return problem(404, "no such run");
  const std::string_view view = rest.substr(slash);
  if (view == "/examples") return json_answer(examples_view(run->folder, question_of(request)));
  if (view == "/samples") return json_answer(samples_view(run->folder, question_of(request)));
  if (!view.empty() && view != "/report") return problem(404, "not found");
  Answer answer = problem(404, "no such run");  // stays if the run has just been removed
  site.runs.follow(run->id, [&](const report::FollowedRun& followed) {
    const report::RunSource source = site.describe(*run);
    answer = view.empty() ? json_answer(run_view(source, followed)) : report_answer(source, followed);
  });
  return answer;
}

}  // namespace

std::string_view page_file(std::string_view name) {
  for (const auto& [path, text] : embedded_files())
    if (path == name) return text;
  return {};
}

Prompt prompt_of(const std::string& body) {
  const json given = parse_json(body);
  if (!given.is_object()) throw UserError("expected a JSON object");
  const auto get = [&]<class Value>(const char* name, Value fallback) {
    try {
      return given.value(name, fallback);
    } catch (const json::exception&) {
      throw UserError(fmt::format("{}: not of the expected type", name));
    }
  };
  const double tokens = get("max_new_tokens", 200.0);
  if (!(tokens >= 1 && tokens <= 4096)) throw UserError("max_new_tokens: expected 1 to 4096");
  Prompt prompt{.run = get("run", std::string()),
                .side = get("side", std::string()) == "reference" ? Side::reference : Side::policy,
                .text = get("prompt", std::string()),
                .chat = get("chat", false),
                .temperature = get("temperature", 1.0),
                .max_new_tokens = static_cast<std::int64_t>(tokens)};
  if (prompt.text.empty() || prompt.text.find('\0') != prompt.text.npos)
    throw UserError("prompt: expected a non-empty text without NUL characters");
  if (!(prompt.temperature >= 0 && prompt.temperature <= 10))
    throw UserError("temperature: expected 0 to 10");
  return prompt;
}

std::string line_of(const Prompt& prompt) {
  return json{{"prompt", prompt.text}}.dump(-1, ' ', false, json::error_handler_t::replace) + "\n";
}

std::vector<std::pair<std::string, std::string>> common_headers() {
  return {{"X-Content-Type-Options", "nosniff"},
          {"Referrer-Policy", "no-referrer"},
          {"Cross-Origin-Resource-Policy", "same-origin"},
          {"Cross-Origin-Opener-Policy", "same-origin"},
          {"Cache-Control", "no-store"},
          {"Content-Security-Policy",
           "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data:; "
           "base-uri 'none'; "
           "form-action 'none'; frame-ancestors 'none'"}};
}

std::optional<Answer> refusal_of(const Guard& guard, const Request& request, bool changes) {
  switch (guard.check(request.credentials, changes)) {
    case Verdict::allowed: return std::nullopt;
    case Verdict::wrong_host:
      return problem(421, "this is not the name of this server: use the address that dpo serve printed");
    case Verdict::wrong_token:
      return problem(401, "a token is needed: open the address that dpo serve printed");
    case Verdict::wrong_origin: return problem(403, "only the page itself may ask for this");
    case Verdict::first_visit: break;
  }
  // The redirect removes the token from the address bar. The browser keeps the part after '#', which is the
  // page's state.
  Answer answer{.status = 303, .type = "text/plain", .body = ""};
  answer.headers = {{"Set-Cookie", guard.cookie()}, {"Location", "/"}};
  return answer;
}

Answer answer_to(const Site& site, const Request& request) {
  constexpr std::string_view kRuns = "/api/runs/";
  if (auto refusal = refusal_of(site.guard, request, false)) return *refusal;
  if (request.method != "GET" && request.method != "HEAD") return problem(405, "only GET is allowed here");
  try {
    if (auto page = page_answer(request.path)) return *page;
    if (request.path == "/api/runs") return json_answer(site.runs.list());
    if (request.path == "/api/events") return events_answer(site, request);
    if (request.path.starts_with(kRuns))
      return run_answer(site, request, std::string_view(request.path).substr(kRuns.size()));
  } catch (const UserError&) {
    // The message is not sent, because it may name folders of this machine.
    return problem(500, "the run's files cannot be read: 'dpo report RUN' says why");
  }
  return problem(404, "not found");
}

}  // namespace dpo::serve
