// UploadCleanup: removes files of uploaded folders that no manifest names any more. It reads all
// manifests once an hour, then looks at all files, a small part at each call.
#pragma once

#include <filesystem>
#include <set>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "platform/core/model/upload.h"
#include "platform/server/uploads/upload_folder.h"

namespace lockstep::server {

class UploadCleanup {
 public:
  // The clock outlives this.
  UploadCleanup(std::filesystem::path home, UploadFolder names, const Clock& clock)
      : home_(std::move(home)), names_(std::move(names)), clock_(clock) {}

  // Its files are not removed by the cleanup that is under way.
  void keep(const model::UploadManifest& manifest);
  // A small part of the work; false: nothing is to do now. After an error nothing more is removed
  // until the next time.
  Result<bool> work();

 private:
  enum class Phase { idle, manifests, files };
  struct Place {
    std::filesystem::path folder;
    int depth = 0;  // below `runs`
  };

  void begin();
  Result<void> visit(const Place& place);
  Result<void> visit_manifest(const std::filesystem::path& file);
  Result<void> read(const std::filesystem::path& manifest);
  Result<void> remove_unused(const std::filesystem::path& folder);
  bool is_old(const std::filesystem::path& file) const;

  const std::filesystem::path home_;
  const UploadFolder names_;
  const Clock& clock_;
  Phase phase_ = Phase::idle;
  std::vector<Place> places_;                               // of runs, to be visited
  std::vector<std::filesystem::path> manifests_, folders_;  // to be visited
  std::set<std::string, std::less<>> kept_;                 // SHA-256 of files
  Deadline next_ = Deadline::after(Duration(0));
};

}  // namespace lockstep::server
