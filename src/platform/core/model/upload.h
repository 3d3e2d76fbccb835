// The manifest of an uploaded folder: its files by their SHA-256, and its links
// (docs/design/upload.md). Files are made by its names, so both ends check it.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/units.h"
#include "text/record.h"

namespace lockstep::model {

// A file, or a link.
struct UploadEntry {
  std::string path;
  std::string sha256{};
  Bytes size{};
  bool executable = false;
  std::optional<std::string> link{};

  bool operator==(const UploadEntry&) const = default;

  static constexpr auto fields() {
    return record<UploadEntry>(
        required(field("path", &UploadEntry::path, "below the folder, with '/' between its parts")),
        field("sha256", &UploadEntry::sha256, "of its content, 64 hex digits; empty: a link"),
        field("size", &UploadEntry::size, "of its content"),
        field("executable", &UploadEntry::executable, "its owner may execute it"),
        field("link", &UploadEntry::link,
              "a link to this path, which is relative to that of its folder; null: a file"));
  }
};

struct UploadManifest {
  std::vector<UploadEntry> files{};

  bool operator==(const UploadManifest&) const = default;

  static constexpr auto fields() {
    return record<UploadManifest>(
        required(field("files", &UploadManifest::files, "files and links, by their paths")));
  }
};

inline constexpr std::size_t kUploadFilesMax = 10'000;

// 64 lower-case hex digits. A name of a file for this is a name and nothing else.
bool is_sha256(std::string_view name);
// The path of a link's target below the folder; nothing if it leads out of the folder.
std::optional<std::string> link_target(std::string_view link_path, std::string_view target);

// Refuses names that lead out of the folder or through a link, and entries that are not sorted by
// their paths, or twice there.
Result<void> check(const UploadManifest& manifest);
// The number of files, and their size: the error names the largest. Needs no SHA-256.
Result<void> check_limits(const UploadManifest& manifest, Bytes limit);

Bytes total_size(const UploadManifest& manifest);

}  // namespace lockstep::model
