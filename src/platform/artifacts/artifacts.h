// Artifacts: the files that runs log, by their paths, each content once by its SHA-256
// (docs/design/artifacts.md). Rows in the store name them; the contents are files beside it. On the
// daemon's thread.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/os/fd.h"
#include "base/result.h"
#include "base/units.h"
#include "net/crypto.h"
#include "platform/core/model/ids.h"
#include "platform/store/database.h"

namespace lockstep::artifacts {

inline constexpr std::int64_t kArtifactsMax = 100'000;  // of a run
inline constexpr std::size_t kPathMax = 1'000;

struct Artifact {
  std::string path;
  bool is_folder = false;
  std::int64_t size = 0;  // 0: a folder
  std::string sha256{};   // empty: a folder
};

// "a/b". Code::invalid: it is empty, absolute, too long, or has a part that is empty, "." or "..",
// a backslash, a control character, or one of these percent-encoded.
Result<std::string> checked_path(const std::vector<std::string>& parts);
Result<std::string> checked_path(std::string_view path);

// A content that comes in parts. Its file is removed unless it becomes an artifact.
class IncomingArtifact {
 public:
  IncomingArtifact(std::filesystem::path path, Fd file)
      : path_(std::move(path)), file_(std::move(file)) {}
  ~IncomingArtifact();
  IncomingArtifact(const IncomingArtifact&) = delete;
  IncomingArtifact& operator=(const IncomingArtifact&) = delete;

  Result<void> add(std::string_view part);
  std::int64_t size() const { return size_; }

 private:
  friend class Artifacts;
  const std::filesystem::path path_;
  Fd file_;
  net::Sha256 digest_;
  std::int64_t size_ = 0;
  std::int64_t written_back_ = 0;  // bytes that the kernel was told to write
};

class Artifacts {
 public:
  // The database outlives this. Contents that come are in the folder's `incoming`, which no other
  // object uses; removes those that did not come completely.
  Artifacts(store::Database& database, std::filesystem::path folder,
            const std::string& incoming = "incoming");

  // Code::exhausted: the disk has no room for it.
  Result<std::unique_ptr<IncomingArtifact>> begin();
  // Replaces an artifact of this path. Code::invalid: the path is a folder, or one above it is an
  // artifact.
  Result<Artifact> add(const model::RunId& run, const std::string& path,
                       IncomingArtifact& incoming);
  // The artifacts and folders directly in a folder, by name; empty: that of the run.
  Result<std::vector<Artifact>> list(const model::RunId& run, const std::string& folder);
  // Code::not_found.
  Result<Artifact> find(const model::RunId& run, const std::string& path);
  Result<Fd> open(const Artifact& artifact) const;
  // An artifact, or all below a folder. False: there is none.
  Result<bool> remove(const model::RunId& run, const std::string& path);
  // Removes some contents that no artifact has any more. True: there may be more.
  Result<bool> clean_up();

 private:
  std::filesystem::path file_of(const std::string& sha256) const;
  Result<void> check_path_is_free(const model::RunId& run, const std::string& path);

  store::Database& database_;
  const std::filesystem::path folder_;
  const std::filesystem::path incoming_folder_;
  std::int64_t incoming_ = 0;  // for names
};

}  // namespace lockstep::artifacts
