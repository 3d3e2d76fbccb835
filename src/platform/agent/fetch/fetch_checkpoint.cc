#include "platform/agent/fetch/fetch_checkpoint.h"

#include <algorithm>
#include <cerrno>
#include <optional>
#include <set>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/format.h"
#include "base/log.h"
#include "base/os/fd.h"
#include "base/os/files.h"
#include "net/base64.h"
#include "net/crypto.h"
#include "platform/agent/fetch/host_error.h"
#include "train/checkpoint/format/list_checkpoints.h"
#include "train/checkpoint/format/manifest.h"
#include "train/checkpoint/format/saved_checkpoint.h"

namespace lockstep::agent {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kManifestMax = 256 << 20;
constexpr int kCopiesMax = 8;  // of one file, each from another host

Result<void> check_choice(const api::NodeCheckpoint& choice) {
  bool has_manifest = false;
  for (const api::CheckpointFile& file : choice.files) {
    if (file.name.empty() || file.name.starts_with('.') || file.size < 0 ||
        file.name.find_first_of(std::string("/\0", 2)) != std::string::npos)
      return Error{Code::corrupt, format("'{}' is no file of a checkpoint", file.name)};
    has_manifest = has_manifest || file.name == train::kManifestName;
  }
  if (has_manifest && *choice.step >= 0) return {};
  return Error{Code::corrupt, "a checkpoint without a manifest"};
}

bool has_manifest_of(const fs::path& checkpoint, const api::NodeCheckpoint& choice) {
  const auto content = read_file(checkpoint / train::kManifestName, kManifestMax);
  return content && net::sha256_hex(*content) == choice.manifest;
}

bool has_file(const fs::path& path, std::int64_t size) {
  struct stat info{};
  return ::lstat(path.c_str(), &info) == 0 && S_ISREG(info.st_mode) && info.st_size == size;
}

class CheckpointFetch {
 public:
  CheckpointFetch(CheckpointSource& source, const api::NodeCheckpoint& choice,
                  const fs::path& folder, const std::string& name,
                  const std::function<bool()>& is_stopped)
      : source_(source),
        choice_(choice),
        final_(folder / train::checkpoint_name(*choice.step)),
        // The names of what a save leaves unfinished: the next writer removes it.
        made_(folder / format(".{}.{}.tmp", train::checkpoint_name(*choice.step), name)),
        old_(folder / format(".{}.{}.old.tmp", train::checkpoint_name(*choice.step), name)),
        is_stopped_(is_stopped) {}

  Result<void> run() {
    const bool is_known = has_manifest_of(final_, choice_);
    std::set<std::string> kept;
    if (is_known) {
      manifest_ = TRY(read_manifest(final_));
      kept = undamaged_files();
      if (kept.size() == choice_.files.size()) return {};
    }
    TRY(remove(made_));
    TRY(of_host(make_folders(made_)));
    for (const api::CheckpointFile& file : manifest_first())
      if (!kept.contains(file.name) || !take_over(file)) TRY(fetch(file));
    return make_visible();
  }

 private:
  static Result<void> remove(const fs::path& path) {
    std::error_code failed;
    fs::remove_all(path, failed);
    if (failed) return host_error("removing " + path.string(), failed.value());
    return {};
  }

  bool take_over(const api::CheckpointFile& file) const {
    return ::link((final_ / file.name).c_str(), (made_ / file.name).c_str()) == 0;
  }

  // It has the checksums of the others.
  std::vector<api::CheckpointFile> manifest_first() const {
    std::vector<api::CheckpointFile> files = choice_.files;
    std::ranges::stable_partition(
        files, [](const api::CheckpointFile& file) { return file.name == train::kManifestName; });
    return files;
  }

  // Those in the folder of this host. The ranks read them next, from memory then.
  std::set<std::string> undamaged_files() const {
    std::set<std::string> found;
    for (const api::CheckpointFile& file : choice_.files) {
      if (!has_file(final_ / file.name, file.size)) continue;
      if (const auto checked = check(final_, file.name); checked)
        found.insert(file.name);
      else
        LS_LOG(warning, "{}: {}", (final_ / file.name).string(), checked.error().message);
    }
    return found;
  }

  static Result<train::Manifest> read_manifest(const fs::path& folder) {
    return train::parse_manifest(TRY(read_file(folder / train::kManifestName, kManifestMax)));
  }

  Result<void> check(const fs::path& folder, const std::string& name) const {
    if (name != train::kManifestName)
      return train::SavedCheckpoint(folder, *manifest_).verify_file(name);
    if (has_manifest_of(folder, choice_)) return {};
    return Error{Code::corrupt, "the manifest is another one than it was"};
  }

  // A damaged copy is followed by that of another host.
  Result<void> fetch(const api::CheckpointFile& wanted) {
    std::optional<std::string> damaged;
    for (int copies = 1;; ++copies) {
      const std::string host = TRY(copy(wanted, damaged));
      const auto checked = check(made_, wanted.name);
      if (checked) break;
      if (copies == kCopiesMax) return checked;
      LS_LOG(warning, "{} from host {}: {}", wanted.name, host, checked.error().message);
      TRY(remove(made_ / wanted.name));
      damaged = host.empty() ? std::nullopt : std::optional(host);
    }
    if (wanted.name == train::kManifestName) manifest_ = TRY(read_manifest(made_));
    return {};
  }

  // The host that gave it; empty: several did, or an older daemon does not say.
  Result<std::string> copy(const api::CheckpointFile& wanted,
                           const std::optional<std::string>& damaged) {
    const fs::path path = made_ / wanted.name;
    const Fd file = TRY(of_host(open_file(path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW)));
    std::set<std::string> hosts;
    for (std::int64_t size = 0; size < wanted.size;) {
      if (is_stopped_()) return Error{Code::cancelled, "it was stopped"};
      const auto part = TRY(source_.part({.step = *choice_.step,
                                          .name = wanted.name,
                                          .offset = size,
                                          .damaged = size == 0 ? damaged : std::nullopt}));
      const auto bytes = net::from_base64(part.bytes);
      if (!bytes || bytes->empty() || size + std::ssize(*bytes) > wanted.size)
        return Error{Code::corrupt, format("{} is another one than it was", wanted.name)};
      TRY(of_host(
          write_all(file.get(), {reinterpret_cast<const char*>(bytes->data()), bytes->size()})));
      size += std::ssize(*bytes);
      hosts.insert(part.host);
    }
    if (::fsync(file.get()) != 0) return host_error("writing " + path.string(), errno);
    return hosts.size() == 1 ? *hosts.begin() : std::string();
  }

  Result<void> make_visible() const {
    TRY(remove(old_));
    if (::rename(final_.c_str(), old_.c_str()) != 0 && errno != ENOENT)
      return host_error("renaming " + final_.string(), errno);
    if (::rename(made_.c_str(), final_.c_str()) != 0)
      return host_error("renaming " + made_.string(), errno);
    TRY(remove(old_));
    return of_host(sync_folder(final_.parent_path()));
  }

  CheckpointSource& source_;
  const api::NodeCheckpoint& choice_;
  const fs::path final_, made_, old_;
  std::optional<train::Manifest> manifest_;
  const std::function<bool()>& is_stopped_;
};

}  // namespace

Result<std::string> fetch_checkpoint(CheckpointSource& source, const fs::path& folder,
                                     const std::string& name,
                                     const std::function<bool()>& is_stopped) {
  const api::NodeCheckpoint choice = TRY(source.choice());
  if (!choice.step) return choice.note;
  TRY(check_choice(choice));
  TRY(of_host(make_folders(folder)));
  CheckpointFetch fetch(source, choice, folder, name, is_stopped);
  if (auto done = fetch.run(); !done)
    return std::move(done).error().with_context(format("the checkpoint of step {}", *choice.step));
  LS_LOG(info, "the checkpoint of step {} is there", *choice.step);
  return choice.note;
}

}  // namespace lockstep::agent
