// Makes a copy of an uploaded folder from its source: files by their SHA-256, then links.
#pragma once

#include <filesystem>
#include <functional>
#include <vector>

#include "base/result.h"
#include "platform/agent/fetch/upload_source.h"

namespace lockstep::agent {

// The size of the files. The folder is made afresh, with what `earlier` copies have unchanged, and
// with the rest from the source. Code::internal: this host refuses a file, or
// has no space; Code::cancelled: `is_stopped` was true. Other errors are those of the source.
Result<Bytes> copy_folder(UploadSource& source, const std::filesystem::path& folder,
                          const std::function<bool()>& is_stopped,
                          const std::vector<std::filesystem::path>& earlier = {});

}  // namespace lockstep::agent
