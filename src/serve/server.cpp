#include "serve/server.h"

#include <httplib.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <mutex>
#include <thread>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/stop.h"
#include "serve/child.h"
#include "serve/events.h"

namespace dpo::serve {
namespace {

using nlohmann::json;
using namespace std::chrono_literals;

constexpr int kThreads = 64;  // each viewer's stream of events occupies one
constexpr int kMostStreams = 40;
constexpr std::size_t kLongestBody = 64 << 10;  // bytes of a request
constexpr const char* kTry = "/api/try";

// Counts itself while it lives.
class Counted {
 public:
  explicit Counted(std::atomic<int>& count) : count_(count), before_(count++) {}
  ~Counted() { --count_; }
  Counted(const Counted&) = delete;
  Counted& operator=(const Counted&) = delete;

  int before() const { return before_; }

 private:
  std::atomic<int>& count_;
  int before_;
};

Request request_of(const httplib::Request& given) {
  Request request{.method = given.method, .path = given.path};
  for (const auto& [name, value] : given.params) request.parameters[name] = value;
  request.credentials = {.host = given.get_header_value("Host"),
                         .origin = given.get_header_value("Origin"),
                         .authorization = given.get_header_value("Authorization"),
                         .cookie = given.get_header_value("Cookie"),
                         .token = given.get_param_value("token")};
  return request;
}

// The library enforces its limit only on bodies sent uncompressed and with their length.
bool has_plain_body(const httplib::Request& request) {
  return request.has_header("Content-Length") && !request.has_header("Transfer-Encoding") &&
         !request.has_header("Content-Encoding");
}

void set_headers(const Answer& answer, httplib::Response& response) {
  response.status = answer.status;
  for (const auto& [name, value] : answer.headers) response.set_header(name, value);
  for (const auto& [name, value] : common_headers())
    if (!response.has_header(name)) response.set_header(name, value);
}

void send_problem(int status, const std::string& text, httplib::Response& response) {
  set_headers({.status = status}, response);
  response.set_content(text + "\n", "text/plain; charset=utf-8");
}

std::string json_line(const json& value) {
  return value.dump(-1, ' ', true, json::error_handler_t::replace) + "\n";
}

// Sends an answer piece by piece. An exception would end the program, so it ends the connection instead.
httplib::ContentProviderWithoutLength pieces_of(std::function<bool(httplib::DataSink&)> send) {
  return [send = std::move(send)](std::size_t, httplib::DataSink& sink) {
    try {
      return send(sink);
    } catch (const std::exception&) {
      return false;
    }
  };
}

class Server {
 public:
  explicit Server(const Settings& settings) : settings_(settings), runs_(settings.folders) {}

  void run(const std::function<void(const std::string&)>& ready);

 private:
  void bind();
  void add_handlers();
  std::string address() const;
  void answer(const httplib::Request& request, httplib::Response& response);
  void send_events(const Answer& answer, httplib::Response& response);
  void try_model(const httplib::Request& request, httplib::Response& response);

  const Settings& settings_;
  Runs runs_;
  httplib::Server http_;
  int port_ = 0;
  std::unique_ptr<Guard> guard_;  // set once the port is known
  std::atomic<int> streams_ = 0;
  std::timed_mutex trying_;  // held while a model answers: one at a time
};

void Server::bind() {
  // Replaces the library's default SO_REUSEPORT, with which two servers could share a port.
  http_.set_socket_options([](socket_t socket) {
    const int yes = 1;
    ::setsockopt(socket, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
  });
  http_.new_task_queue = [] { return new httplib::ThreadPool(kThreads); };
  // Allows one request per connection. The library would parse a body that it did not read as the next
  // request, with headers that any web site could choose.
  http_.set_keep_alive_max_count(1);
  http_.set_keep_alive_timeout(1);  // seconds that a connection may wait before its request
  http_.set_payload_max_length(kLongestBody);
  port_ = settings_.port == 0 ? http_.bind_to_any_port(settings_.host)
                              : (http_.bind_to_port(settings_.host, settings_.port) ? settings_.port : -1);
  if (port_ <= 0 && settings_.port == 0)
    throw UserError(fmt::format("cannot listen on {}: is it an address of this machine?", settings_.host));
  if (port_ <= 0)
    throw UserError(fmt::format(
        "cannot listen on {} port {}: is it in use, or not an address of this machine? Try --port 0 "
        "for any that is free",
        settings_.host, settings_.port));
  guard_ = std::make_unique<Guard>(settings_.host, port_, settings_.token);
}

std::string Server::address() const {
  std::string host = settings_.host;
  if (host == "0.0.0.0" || host == "::") {
    char name[256] = {};
    if (::gethostname(name, sizeof name - 1) == 0) host = name;
  }
  if (host.find(':') != host.npos) host = "[" + host + "]";
  return fmt::format("http://{}:{}/{}{}", host, port_,
                     settings_.token.empty() ? "" : "?token=", settings_.token);
}

void Server::add_handlers() {
  http_.set_exception_handler([](const httplib::Request&, httplib::Response& response, auto) {
    send_problem(500, "this is a bug in dpo", response);
  });
  // Handles all requests before the library selects handlers by path.
  http_.set_pre_routing_handler([this](const httplib::Request& request, httplib::Response& response) {
    const bool is_try = request.method == "POST" && request.path == kTry;
    if (!is_try) {
      answer(request, response);
      return httplib::Server::HandlerResponse::Handled;
    }
    if (const auto refusal = refusal_of(*guard_, request_of(request), true)) {
      set_headers(*refusal, response);
      response.set_content(refusal->body, refusal->type);
    } else if (!has_plain_body(request)) {
      send_problem(411, "expected a body with its length", response);
    } else {
      return httplib::Server::HandlerResponse::Unhandled;  // the library reads its body first
    }
    return httplib::Server::HandlerResponse::Handled;
  });
  http_.Post(kTry, [this](const httplib::Request& request, httplib::Response& response) {
    try_model(request, response);
  });
}

void Server::answer(const httplib::Request& request, httplib::Response& response) {
  if (request.has_header("Range")) return send_problem(400, "range requests are not supported", response);
  const Answer made = answer_to({runs_, *guard_, settings_.describe}, request_of(request));
  if (made.is_events) return send_events(made, response);
  set_headers(made, response);
  response.set_content(made.body, made.type);
}

void Server::send_events(const Answer& answer, httplib::Response& response) {
  struct Stream {
    EventStream events;
    Counted counted;
    std::chrono::steady_clock::time_point sent = std::chrono::steady_clock::now();
  };
  const auto stream =
      std::shared_ptr<Stream>(new Stream{EventStream(runs_, answer.events_of), Counted(streams_)});
  if (stream->counted.before() >= kMostStreams) return send_problem(503, "too many viewers", response);
  set_headers(answer, response);
  response.set_chunked_content_provider(
      answer.type, pieces_of([stream](httplib::DataSink& sink) {
        std::string text = stream->events.next();
        const auto now = std::chrono::steady_clock::now();
        if (text.empty() && now - stream->sent > 10s)
          text = ":\n\n";  // a comment, which shows whether the viewer is still there
        if (text.empty()) {
          std::this_thread::sleep_for(250ms);
          return true;
        }
        stream->sent = now;
        return sink.write(text.data(), text.size());
      }));
}

// Sends the answer of a model as lines {"text"}, and {"done"} or {"error"} at the end. The process ends when
// the viewer leaves.
void Server::try_model(const httplib::Request& request, httplib::Response& response) {
  struct Try {
    std::unique_lock<std::timed_mutex> turn;
    std::unique_ptr<Child> child;
  };
  // Waits up to 2 s, because a viewer may have stopped a model and asked again, and the end of the first
  // request is noticed only shortly after.
  const auto attempt = std::shared_ptr<Try>(new Try{std::unique_lock(trying_, 2s), nullptr});
  if (!attempt->turn)
    return send_problem(409, "a model is answering another prompt: wait until it has finished", response);
  try {
    const Prompt prompt = prompt_of(request.body);
    const auto run = runs_.find(prompt.run);
    if (!run) return send_problem(404, "no such run", response);
    attempt->child =
        std::make_unique<Child>("/proc/self/exe", settings_.sample(*run, prompt), line_of(prompt));
  } catch (const UserError& error) {
    return send_problem(400, error.what(), response);
  }
  set_headers({}, response);
  response.set_chunked_content_provider(
      "application/x-ndjson", pieces_of([attempt](httplib::DataSink& sink) {
        const std::string text = attempt->child->read(200ms);
        const auto send = [&](const json& value) {
          const std::string line = json_line(value);
          return sink.write(line.data(), line.size());
        };
        if (!text.empty() && !send({{"text", text}})) return false;
        if (!attempt->child->has_ended()) return sink.is_writable();
        const std::string failure = attempt->child->failure();
        attempt->turn.unlock();  // first: the viewer may ask the next model as soon as it sees the end
        send(failure.empty() ? json{{"done", true}} : json{{"error", failure}});
        sink.done();
        return true;
      }));
}

void Server::run(const std::function<void(const std::string&)>& ready) {
  bind();
  add_handlers();
  std::atomic<bool> has_ended = false;
  std::thread listening([&] {
    http_.listen_after_bind();
    has_ended = true;
  });
  while (!http_.is_running() && !has_ended) std::this_thread::sleep_for(1ms);
  if (http_.is_running()) ready(address());
  while (!stop_requested() && http_.is_running()) std::this_thread::sleep_for(100ms);
  http_.stop();
  listening.join();
}

}  // namespace

bool is_available() { return true; }

void serve(const Settings& settings, const std::function<void(const std::string&)>& ready) {
  handle_stop_signals();
  Server(settings).run(ready);
}

}  // namespace dpo::serve
