// The copies of the uploaded folder that earlier nodes of a run have left on this host.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "platform/core/model/upload.h"

namespace lockstep::agent {

// Those of the newest attempts, without that of this node.
std::vector<std::filesystem::path> earlier_copies(const std::filesystem::path& node_folder);

// Copies the file from one of them to `to`, which is made, if one has it unchanged. Programs may
// have written there, so the SHA-256 is that of the bytes that were copied.
bool take_from_earlier(const std::vector<std::filesystem::path>& copies,
                       const model::UploadEntry& entry, const std::filesystem::path& to);

}  // namespace lockstep::agent
