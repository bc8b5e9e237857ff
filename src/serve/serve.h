#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "serve/routes.h"

namespace dpo::serve {

// Whether this program was built with cpp-httplib; without it serve() must not be called.
bool is_available();

struct Settings {
  std::vector<std::filesystem::path> folders;
  std::string host = "127.0.0.1";
  int port = 0;       // 0: any that is free
  std::string token;  // empty: none is needed, which only a loopback address allows
  std::function<report::RunSource(const Run&)> describe;
  // The arguments of dpo with which a model of a run answers a prompt, whose text it reads from stdin; a
  // UserError if it cannot.
  std::function<std::vector<std::string>(const Run&, const Prompt&)> sample;
};

// Answers requests until a stop signal. `ready` gets the address of the page, once it can be opened. A
// UserError if the address cannot be used.
void serve(const Settings& settings, const std::function<void(const std::string& address)>& ready);

}  // namespace dpo::serve
