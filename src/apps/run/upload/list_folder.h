// The files of a folder that `lockstep run --upload` sends; docs/design/upload.md says which.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "base/result.h"
#include "platform/core/model/upload.h"

namespace lockstep::cli {

struct FolderToUpload {
  model::UploadManifest manifest;     // sorted; without the SHA-256 of the files
  std::vector<std::string> left_out;  // what is there and is not sent, with the reason
};

Result<FolderToUpload> list_folder_to_upload(const std::filesystem::path& folder);

}  // namespace lockstep::cli
