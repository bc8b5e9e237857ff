#include "commands/package.h"

#include <regex>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/error.h"
#include "base/files.h"
#include "base/parse_json.h"

namespace dpo::commands {
namespace {

namespace fs = std::filesystem;

// Returns the version of a LibTorch, such as 2.11.0+cu130, or "" if it does not say. A Python's torch has it
// in version.py, an unpacked libtorch archive in build-version.
std::string version_of(const fs::path& torch) {
  std::error_code none;
  const std::string what = "the version of LibTorch";
  std::smatch found;
  if (fs::exists(torch / "version.py", none)) {
    const std::string text = read_text_file(torch / "version.py", what);
    if (std::regex_search(text, found, std::regex("__version__ = '([^'\\n]+)'"))) return found[1];
  }
  if (!fs::exists(torch / "build-version", none)) return "";
  const std::string text = read_text_file(torch / "build-version", what);
  return text.substr(0, text.find_first_of(" \r\n"));
}

std::string without_suffix(const std::string& version) { return version.substr(0, version.find('+')); }

// Returns the major version of CUDA that a LibTorch's version names: 13 for 2.11.0+cu130.
std::optional<int> cuda_of(const std::string& version) {
  std::smatch found;
  if (!std::regex_search(version, found, std::regex("\\+cu(\\d{2})\\d$"))) return std::nullopt;
  return std::stoi(found[1]);
}

void check_version(const Package& package, const fs::path& torch, const std::string& install) {
  const std::string version = version_of(torch);
  if (without_suffix(version) != package.torch)
    throw UserError(fmt::format("this dpo was built for torch {}, and {} is {}: {}", package.torch,
                                torch.string(), version.empty() ? "an unknown version" : "torch " + version,
                                install));
  if (package.cuda == 0) return;
  const std::string remedy = install + ", which has CUDA, or install dpo's package for CPUs";
  std::error_code none;
  if (!fs::exists(torch / "lib" / "libtorch_cuda.so", none))
    throw UserError(fmt::format("this dpo was built for GPUs, and the torch in {} has no CUDA ({}): {}",
                                torch.string(), version, remedy));
  if (cuda_of(version).value_or(package.cuda) != package.cuda)
    throw UserError(fmt::format("this dpo was built for CUDA {}, and the torch in {} is for CUDA {} ({}): {}",
                                package.cuda, torch.string(), *cuda_of(version), version, remedy));
}

}  // namespace

std::optional<Package> package_in(const fs::path& folder) {
  const fs::path file = folder / "package.json";
  std::error_code none;
  if (!fs::exists(file, none)) return std::nullopt;
  const nlohmann::json facts = parse_json(read_text_file(file, "the description of this package"));
  try {
    return Package{folder, facts.at("torch").get<std::string>(), facts.at("cuda").get<int>()};
  } catch (const nlohmann::json::exception&) {
    throw UserError(
        fmt::format("{}: not the description of a package of dpo; install dpo again", file.string()));
  }
}

std::optional<Package> package_of_this_program() {
  return package_in(fs::read_symlink("/proc/self/exe").parent_path().parent_path());
}

fs::path torch_beside(const Package& package) { return package.folder.parent_path() / "torch"; }

fs::path find_torch(const Package& package, const char* libtorch) {
  const std::string install =
      fmt::format("python3 -m pip install --force-reinstall torch=={}", package.torch);
  const fs::path beside = torch_beside(package);
  std::error_code none;
  fs::path torch = beside;
  if (!fs::exists(beside / "lib" / "libtorch_cpu.so", none)) {
    if (libtorch == nullptr || *libtorch == '\0')
      throw UserError(fmt::format(
          "this dpo needs torch {}, and there is none in {}: python3 -m pip install torch=={}, or "
          "set LIBTORCH=DIR to the torch folder of a Python or an unpacked libtorch archive",
          package.torch, beside.string(), package.torch));
    torch = libtorch;
    if (!fs::exists(torch / "lib" / "libtorch_cpu.so", none))
      throw UserError(
          fmt::format("LIBTORCH={} has no lib/libtorch_cpu.so; expected an unpacked libtorch archive, or the "
                      "folder of a Python's torch",
                      libtorch));
  }
  check_version(package, torch, install);
  return torch;
}

}  // namespace dpo::commands
