// A package of dpo is a wheel or a tarball (scripts/package.py): the programs in bin/, their libraries in
// lib/, and package.json. It contains no LibTorch, which is found when dpo-engine starts.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

namespace dpo::commands {

struct Package {
  std::filesystem::path folder;
  std::string torch;  // the only version of LibTorch that it works with
  int cuda = 0;       // major version of CUDA; 0: the package is for CPUs only
};

// Returns the package in a folder, or nullopt if the folder is not one, such as a build folder.
std::optional<Package> package_in(const std::filesystem::path& folder);

// Returns the package that contains this program.
std::optional<Package> package_of_this_program();

// Returns the folder next to the package in which its programs search for LibTorch first. pip installs both
// there.
std::filesystem::path torch_beside(const Package& package);

// Returns the folder of LibTorch: the one next to the package, else `libtorch` (LIBTORCH=DIR), which may be
// nullptr. Throws a UserError if there is none, or if the package does not work with it.
std::filesystem::path find_torch(const Package& package, const char* libtorch);

}  // namespace dpo::commands
