#include "platform/server/uploads/upload_cleanup.h"

#include <cerrno>
#include <chrono>
#include <utility>

#include <sys/stat.h>
#include <unistd.h>

#include "base/os/files.h"
#include "text/convert.h"
#include "text/json.h"

namespace lockstep::server {
namespace {

namespace fs = std::filesystem;

constexpr Duration kUploadScanInterval = std::chrono::hours(1);
constexpr Duration kUploadKept = std::chrono::hours(24);  // without a run
constexpr int kRunDepth = 3;                              // generation, project, number

// Empty if there is no such folder.
Result<std::vector<fs::path>> entries_of(const fs::path& folder) {
  auto found = list_folder(folder);
  const bool is_none = !found && (found.error().code == Code::not_found ||
                                  !fs::is_directory(fs::symlink_status(folder)));
  return is_none ? std::vector<fs::path>() : found;
}

template <class T>
T take_last(std::vector<T>& items) {
  T last = std::move(items.back());
  items.pop_back();
  return last;
}

}  // namespace

void UploadCleanup::keep(const model::UploadManifest& manifest) {
  if (phase_ == Phase::idle) return;
  for (const model::UploadEntry& entry : manifest.files) kept_.insert(entry.sha256);
}

void UploadCleanup::begin() {
  next_ = Deadline::after(kUploadScanInterval);
  phase_ = Phase::manifests;
  kept_.clear();
  folders_.clear();
  manifests_.clear();
  places_ = {{home_ / "runs", 0}};
}

Result<bool> UploadCleanup::work() {
  if (phase_ == Phase::idle) {
    if (!next_.passed() || ::access(names_.folder.c_str(), F_OK) != 0) return false;
    begin();
    manifests_ = TRY(entries_of(names_.manifests()));
    return true;
  }
  const auto worked = [&]() -> Result<void> {
    if (!manifests_.empty()) return visit_manifest(take_last(manifests_));
    if (!places_.empty()) return visit(take_last(places_));
    if (phase_ == Phase::manifests) {
      phase_ = Phase::files;
      folders_ = TRY(entries_of(names_.files()));
      for (const fs::path& user : TRY(entries_of(names_.senders())))
        for (fs::path& folder : TRY(entries_of(user))) folders_.push_back(std::move(folder));
      return {};
    }
    if (!folders_.empty()) return remove_unused(take_last(folders_));
    phase_ = Phase::idle;
    return {};
  };
  if (auto done = worked(); !done) {
    phase_ = Phase::idle;
    return std::move(done).error();
  }
  return true;
}

Result<void> UploadCleanup::visit_manifest(const fs::path& file) {
  if (!is_old(file)) return read(file);
  if (::unlink(file.c_str()) == 0 || errno == ENOENT) return {};
  return os_error("removing " + file.string(), errno);
}

Result<void> UploadCleanup::visit(const Place& place) {
  if (place.depth == kRunDepth) {
    const fs::path manifest = place.folder / "upload.json";
    return ::access(manifest.c_str(), F_OK) == 0 ? read(manifest) : Result<void>();
  }
  for (const fs::path& entry : TRY(entries_of(place.folder)))
    places_.push_back({entry, place.depth + 1});
  return {};
}

Result<void> UploadCleanup::read(const fs::path& manifest) {
  const auto content = read_file(manifest);
  if (!content && content.error().code == Code::not_found) return {};  // removed meanwhile
  const auto read = [&]() -> Result<model::UploadManifest> {
    return from_json<model::UploadManifest>(TRY(parse_json(TRY(content))), UnknownFields::ignore);
  };
  auto known = read();
  if (!known) return std::move(known).error().with_context(manifest.string());
  keep(*known);
  return {};
}

Result<void> UploadCleanup::remove_unused(const fs::path& folder) {
  for (const fs::path& file : TRY(entries_of(folder)))
    if (!kept_.contains(file.filename().string()) && is_old(file) && ::unlink(file.c_str()) != 0 &&
        errno != ENOENT)
      return os_error("removing " + file.string(), errno);
  return {};
}

bool UploadCleanup::is_old(const fs::path& file) const {
  struct stat info{};
  if (::lstat(file.c_str(), &info) != 0) return false;
  const Time changed = Time(std::chrono::seconds(info.st_mtim.tv_sec));
  return clock_.now() - changed > kUploadKept;
}

}  // namespace lockstep::server
