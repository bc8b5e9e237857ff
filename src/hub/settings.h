// What the environment says about the hub, by the variables of the Python client.
#pragma once

#include <filesystem>
#include <string>

namespace dpo::hub {

// HF_ENDPOINT, else https://huggingface.co; without a slash at the end.
std::string endpoint();

// HF_TOKEN, HUGGING_FACE_HUB_TOKEN, else the file that 'hf auth login' writes (HF_TOKEN_PATH); "" if there is
// none.
std::string token();

// HF_HUB_OFFLINE, TRANSFORMERS_OFFLINE: nothing is requested from the hub.
bool is_offline();

// The folder in which the Hugging Face libraries cache their downloads.
std::filesystem::path cache_folder();

// Seconds without data after which a download is interrupted and resumed (HF_HUB_DOWNLOAD_TIMEOUT).
long download_timeout();

}  // namespace dpo::hub
