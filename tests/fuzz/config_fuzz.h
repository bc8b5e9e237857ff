#pragma once

#include <string_view>

enum class InputKind { Words, File };

// Composes from the input and aborts if a property does not hold. True if the input was accepted.
bool try_input(InputKind kind, std::string_view text);
