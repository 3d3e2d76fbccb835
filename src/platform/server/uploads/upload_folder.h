// The names of the files of uploaded folders below the daemon's home; docs/design/upload.md.
#pragma once

#include <filesystem>
#include <string>

namespace lockstep::server {

struct UploadFolder {
  std::filesystem::path folder;  // uploads, below the home

  std::filesystem::path files() const { return folder / "files"; }
  std::filesystem::path manifests() const { return folder / "manifests"; }
  std::filesystem::path incoming() const { return folder / "incoming"; }
  std::filesystem::path senders() const { return folder / "senders"; }

  std::filesystem::path file(const std::string& sha256) const {
    return files() / sha256.substr(0, 2) / sha256;
  }
  // An empty file: this user has sent the file with this SHA-256.
  std::filesystem::path sent_by(const std::string& user, const std::string& sha256) const {
    return senders() / user / sha256.substr(0, 2) / sha256;
  }
  std::filesystem::path incoming_file(const std::string& user, const std::string& sha256) const {
    return incoming() / user / sha256;
  }
  std::filesystem::path manifest(const std::string& id) const {
    return manifests() / (id + ".json");
  }
};

}  // namespace lockstep::server
