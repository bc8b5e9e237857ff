#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "serve/routes.h"

namespace dpo::serve {

// Returns true if this program was built with cpp-httplib. If not, serve() must not be called.
bool is_available();

struct Settings {
  std::vector<std::filesystem::path> folders;
  std::string host = "127.0.0.1";
  int port = 0;       // 0: any free port
  std::string token;  // empty: none, which only a loopback address allows
  std::function<report::RunSource(const Run&)> describe;
  // Returns the arguments of dpo with which a run's model answers a prompt, whose text it reads from stdin.
  // Throws UserError if the run has no model for it.
  std::function<std::vector<std::string>(const Run&, const Prompt&)> sample;
};

// Answers requests until a stop signal. `ready` gets the address of the page once it can be opened. Throws
// UserError if the host and port cannot be used.
void serve(const Settings& settings, const std::function<void(const std::string& address)>& ready);

}  // namespace dpo::serve
