#include "platform/core/model/upload.h"

#include <algorithm>
#include <set>

#include "base/format.h"
#include "base/utf8.h"

namespace lockstep::model {
namespace {

constexpr std::size_t kPathMax = 1024;
constexpr std::size_t kPartMax = 255;
constexpr Bytes kFileMax = 1024_GiB * 256;  // so that no sum overflows
constexpr std::size_t kLargestNamed = 5;

std::vector<std::string_view> parts_of(std::string_view path) {
  std::vector<std::string_view> parts;
  for (std::size_t begin = 0; begin <= path.size();) {
    const auto end = std::min(path.find('/', begin), path.size());
    parts.push_back(path.substr(begin, end - begin));
    begin = end + 1;
  }
  return parts;
}

Error refusal_of(const UploadEntry& entry, std::string_view reason) {
  return {Code::invalid, format("'{}' {}", escape_controls(entry.path), reason)};
}

Result<void> check_upload_path(const UploadEntry& entry) {
  const std::string& path = entry.path;
  if (!is_utf8(path) || path.find('\0') != std::string::npos)
    return refusal_of(entry, "is not UTF-8; rename it");
  if (path.size() > kPathMax)
    return refusal_of(entry, format("has more than {} bytes; shorten it", kPathMax));
  for (const std::string_view part : parts_of(path))
    if (part.empty() || part == "." || part == ".." || part.size() > kPartMax)
      return refusal_of(entry, "is no path of a file within the folder");
  return {};
}

Result<void> check_upload_entry(const UploadEntry& entry) {
  TRY(check_upload_path(entry));
  if (entry.link) {
    if (entry.sha256.empty() && link_target(entry.path, *entry.link)) return {};
    return refusal_of(entry, "is a link that leads out of the folder");
  }
  if (!is_sha256(entry.sha256)) return refusal_of(entry, "has no SHA-256");
  if (entry.size < Bytes(0) || entry.size > kFileMax) return refusal_of(entry, "has no such size");
  return {};
}

// Nothing is below an entry, since an entry is no folder.
Result<void> check_not_below(const UploadEntry& entry, const std::set<std::string_view>& paths) {
  for (auto slash = entry.path.find('/'); slash != std::string::npos;
       slash = entry.path.find('/', slash + 1))
    if (paths.contains(std::string_view(entry.path).substr(0, slash)))
      return refusal_of(entry, "is below a file or a link");
  return {};
}

}  // namespace

bool is_sha256(std::string_view name) {
  return name.size() == 64 && std::ranges::all_of(name, [](char c) {
           return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f');
         });
}

std::optional<std::string> link_target(std::string_view link_path, std::string_view target) {
  if (target.empty() || target.starts_with('/') || target.size() > kPathMax || !is_utf8(target) ||
      target.find('\0') != std::string_view::npos)
    return std::nullopt;
  std::vector<std::string_view> place = parts_of(link_path);
  place.pop_back();
  for (const std::string_view part : parts_of(target)) {
    if (part.empty() || part == ".") continue;
    if (part != "..") {
      place.push_back(part);
    } else {
      if (place.empty()) return std::nullopt;
      place.pop_back();
    }
  }
  return joined(place, "/");
}

Result<void> check(const UploadManifest& manifest) {
  std::set<std::string_view> paths;
  for (const UploadEntry& entry : manifest.files) {
    TRY(check_upload_entry(entry));
    if (!paths.empty() && entry.path <= *paths.rbegin())
      return refusal_of(entry, "does not come in the order of the paths");
    paths.insert(entry.path);
  }
  for (const UploadEntry& entry : manifest.files) TRY(check_not_below(entry, paths));
  return {};
}

Bytes total_size(const UploadManifest& manifest) {
  Bytes total{};
  for (const UploadEntry& entry : manifest.files) total += entry.size;
  return total;
}

Result<void> check_limits(const UploadManifest& manifest, Bytes limit) {
  if (manifest.files.size() > kUploadFilesMax)
    return Error{Code::invalid,
                 format("the folder has {} files, and {} may be sent; name those that the run does "
                        "not need in .gitignore",
                        manifest.files.size(), kUploadFilesMax)};
  const Bytes total = total_size(manifest);
  if (total <= limit) return {};
  std::vector<const UploadEntry*> largest;
  for (const UploadEntry& entry : manifest.files) largest.push_back(&entry);
  std::ranges::stable_sort(largest, [](const auto* a, const auto* b) { return a->size > b->size; });
  largest.resize(std::min(largest.size(), kLargestNamed));
  std::vector<std::string> names;
  for (const UploadEntry* entry : largest)
    names.push_back(format("{} ({})", escape_controls(entry->path), lockstep::text(entry->size)));
  return Error{Code::invalid,
               format("the folder has {}, and {} may be sent (the daemon's setting upload_limit); "
                      "its largest files: {}; name those that the run does not need in .gitignore",
                      lockstep::text(total), lockstep::text(limit), joined(names, ", "))};
}

}  // namespace lockstep::model
