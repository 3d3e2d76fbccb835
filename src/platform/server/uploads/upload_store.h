// UploadStore: the files of uploaded folders, each once by its SHA-256, and the manifests of runs
// (docs/design/upload.md). A user has the files that it has sent: to know the SHA-256 of another
// user's file gives nothing. On the daemon's thread: each call takes some milliseconds.
#pragma once

#include <compare>
#include <deque>
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/os/fd.h"
#include "base/result.h"
#include "net/crypto.h"
#include "platform/api/upload_messages.h"
#include "platform/core/model/run.h"
#include "platform/server/uploads/upload_cleanup.h"
#include "platform/server/uploads/upload_folder.h"

namespace lockstep::server {

class UploadStore {
 public:
  // The clock outlives this. Removes files that are not complete.
  UploadStore(const std::filesystem::path& home, const Clock& clock);

  // Keeps the manifest for a day. Then the files that the answer names may come.
  Result<api::UploadAnswer> add_manifest(const std::string& user,
                                         const model::UploadManifest& manifest, Bytes limit);
  // How many files are complete by these. Code::invalid: a file is not what its name says.
  Result<int> add_parts(const std::string& user, const std::vector<api::UploadPart>& parts);
  // Code::invalid: there is no such manifest, or the user has not sent a file of it.
  Result<void> check_complete(const std::string& user, const std::string& id);
  // The run was submitted with an upload: its manifest is kept as long as the run is.
  Result<void> keep_manifest(const model::Run& run);

  // For agents. Code::not_found: the run has no uploaded folder, or a file is lost.
  Result<model::UploadManifest> manifest_of(const model::Run& run);
  Result<api::UploadParts> parts_of(const model::Run& run, const api::UploadPartsRequest& request);

  // A few milliseconds of cleanup. False: nothing is to do now.
  Result<bool> clean_up_slice() { return cleanup_.work(); }

 private:
  using Sizes = std::map<std::string, std::int64_t, std::less<>>;  // by SHA-256
  struct LoadedManifest {
    std::string id;
    model::UploadManifest manifest;
    Sizes sizes{};
  };
  struct IncomingFile {
    Fd file;
    std::int64_t size = 0;
    net::Sha256 digest{};
  };

  struct SentFile {
    std::string user, sha256;
    auto operator<=>(const SentFile&) const = default;
  };

  bool has_file(const SentFile& sent, std::int64_t size) const;
  Result<bool> add_part(const std::string& user, const api::UploadPart& part);
  Result<IncomingFile*> incoming(const SentFile& sent);
  Result<void> complete(const SentFile& sent);
  void drop_incoming(const SentFile& sent);
  Result<const LoadedManifest*> load(const std::string& id, const std::filesystem::path& file);
  Result<const LoadedManifest*> load_of(const model::Run& run);

  const std::filesystem::path home_;
  const UploadFolder names_;
  UploadCleanup cleanup_;
  std::map<SentFile, std::int64_t> wanted_;  // that manifests named, with their sizes
  std::map<SentFile, IncomingFile> incoming_;
  std::deque<SentFile> incoming_order_;                 // the oldest first
  std::deque<std::unique_ptr<LoadedManifest>> loaded_;  // the last used
};

}  // namespace lockstep::server
