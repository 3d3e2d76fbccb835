// FolderBlobs: objects as files of a folder, read by mmap.
#pragma once

#include <filesystem>

#include "platform/insight/series/blobs.h"

namespace lockstep::insight {

class FolderBlobs : public Blobs {
 public:
  // Makes the folder when the first object is written. One process at a time.
  explicit FolderBlobs(std::filesystem::path folder) : folder_(std::move(folder)) {}

  Result<std::unique_ptr<BlobWriter>> create(const std::string& name) override;
  Result<std::shared_ptr<const Blob>> open(const std::string& name) override;
  // Removes the files that an ended process left unfinished.
  Result<std::vector<BlobName>> list() override;
  Result<void> remove(const std::string& name) override;

 private:
  const std::filesystem::path folder_;
};

}  // namespace lockstep::insight
