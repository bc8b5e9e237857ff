// Reads the environment variables of the Python client that configure the hub.
#pragma once

#include <filesystem>
#include <string>

namespace dpo::hub {

// Returns HF_ENDPOINT, else https://huggingface.co, without a slash at the end.
std::string endpoint();

// Returns HF_TOKEN, HUGGING_FACE_HUB_TOKEN, else the content of the file that 'hf auth login' writes
// (HF_TOKEN_PATH). Returns "" if there is none, or if HF_HUB_DISABLE_IMPLICIT_TOKEN is true.
std::string token();

// Returns true if HF_HUB_OFFLINE, or else TRANSFORMERS_OFFLINE, is true. Nothing is requested from the hub
// then.
bool is_offline();

// Returns the folder in which the Hugging Face libraries cache their downloads.
std::filesystem::path cache_folder();

// Returns the seconds without data after which a download is interrupted and resumed
// (HF_HUB_DOWNLOAD_TIMEOUT).
long download_timeout();

}  // namespace dpo::hub
