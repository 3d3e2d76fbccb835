#include "train/checkpoint/write.h"

#include <algorithm>
#include <cerrno>
#include <string_view>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <unistd.h>

#include "base/check.h"
#include "base/fd.h"
#include "base/files.h"
#include "base/format.h"
#include "base/log.h"
#include "train/checkpoint/hash.h"
#include "train/checkpoint/list.h"
#include "train/checkpoint/manifest.h"

namespace lockstep {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kDataName = "rank-0000.bin";
constexpr std::int64_t kAlignment = 64;

Result<void> delete_all(const fs::path& path) {
  std::error_code failed;
  fs::remove_all(path, failed);
  if (failed) return os_error(format("deleting {}", path.string()), failed.value());
  return {};
}

Result<void> move_folder(const fs::path& from, const fs::path& to) {
  if (::rename(from.c_str(), to.c_str()) != 0)
    return os_error(format("renaming {} to {}", from.string(), to.string()), errno);
  return {};
}

// Gives it another name, under which it can be deleted without half of it being taken for a
// checkpoint.
Result<fs::path> retire(const fs::path& checkpoint) {
  const auto retired =
      checkpoint.parent_path() / format(".{}.old.tmp", checkpoint.filename().string());
  TRY(delete_all(retired));
  TRY(move_folder(checkpoint, retired));
  return retired;
}

// Under the lock, so that nobody loses what a later attempt goes on from.
Result<fs::path> retire_as(const Fence& fence, const fs::path& checkpoint) {
  const auto lock = TRY(fence.lock());
  TRY(fence.check());
  return retire(checkpoint);
}

// Appends to a file while hashing it.
class DataFile {
 public:
  static Result<DataFile> create(const fs::path& path) {
    return DataFile(TRY(open_file(path, O_WRONLY | O_CREAT | O_EXCL, 0600)));
  }

  std::int64_t size() const { return size_; }
  Result<void> append(std::string_view bytes) {
    TRY(write_all(fd_.get(), bytes));
    hash_.add(bytes.data(), bytes.size());
    size_ += static_cast<std::int64_t>(bytes.size());
    return {};
  }
  Result<void> align() {
    const auto excess = size_ % kAlignment;
    return append(std::string(static_cast<std::size_t>(excess ? kAlignment - excess : 0), '\0'));
  }
  Result<SavedFile> finish() {
    if (::fsync(fd_.get()) != 0) return os_error("syncing", errno);
    return SavedFile{std::string(kDataName), size_, hash_.hex()};
  }

 private:
  explicit DataFile(Fd fd) : fd_(std::move(fd)) {}

  Fd fd_;
  Hash hash_;
  std::int64_t size_ = 0;
};

Result<void> write_tensors(const fs::path& path, const std::vector<NamedTensor>& tensors,
                           Manifest& manifest) {
  auto file = TRY(DataFile::create(path));
  for (const auto& [name, tensor] : tensors) {
    LS_CHECK(tensor.is_contiguous() && tensor.is_cpu(), "{} is not a snapshot", name);
    const auto type = type_name(tensor.scalar_type());
    if (type.empty())
      return Error{Code::invalid, format("{} has a type that checkpoints do not hold", name)};
    TRY(file.align());
    const auto size = static_cast<std::int64_t>(tensor.nbytes());
    manifest.tensors.push_back(
        {name, std::string(type), tensor.sizes().vec(), std::string(kDataName), file.size(), size});
    TRY(file.append({static_cast<const char*>(tensor.const_data_ptr()), tensor.nbytes()}));
  }
  manifest.files.push_back(TRY(file.finish()));
  return {};
}

Manifest manifest_of(const TrainingState& state, std::int64_t epoch) {
  Manifest manifest;
  manifest.step = state.step;
  manifest.epoch = epoch;
  manifest.optimizer = state.optimizer;
  manifest.optimizer_steps = state.optimizer_steps;
  manifest.sampler_seed = state.sampler.seed;
  manifest.sampler_cursor = state.sampler.cursor;
  manifest.notes = state.notes;
  return manifest;
}

Result<void> write_folder(const fs::path& path, const TrainingState& state, std::int64_t epoch) {
  TRY(delete_all(path));
  TRY(make_folders(path));
  auto manifest = manifest_of(state, epoch);
  TRY(write_tensors(path / kDataName, state.tensors, manifest));
  return write_file(path / kManifestName, text(manifest));
}

// Under the lock, so that an epoch that is checked here still holds when the rename is done.
Result<void> commit(const fs::path& written, const fs::path& final, const Fence& fence) {
  const auto lock = TRY(fence.lock());
  TRY(fence.check());
  // Only a torn one, or one of a step that is trained anew, can be there already.
  std::error_code ignored;
  if (fs::exists(final, ignored)) TRY(delete_all(TRY(retire(final))));
  TRY(move_folder(written, final));
  return sync_folder(final.parent_path());
}

}  // namespace

Result<fs::path> write_checkpoint(const fs::path& folder, const Fence& fence,
                                  const TrainingState& state) {
  TRY(fence.check());
  const auto final = folder / checkpoint_name(state.step);
  const auto written = folder / format(".{}.{}.tmp", final.filename().string(), fence.epoch());
  auto outcome = write_folder(written, state, fence.epoch());
  if (outcome) outcome = commit(written, final, fence);
  if (outcome) return final;
  // A later attempt also deletes what this one was writing: then that is the reason.
  if (auto fenced = fence.check(); !fenced) outcome = std::move(fenced);
  if (auto removed = delete_all(written); !removed) LS_LOG(warning, "{}", removed.error().message);
  return std::move(outcome).error().within(format("saving {}", final.string()));
}

Result<void> prune_checkpoints(const fs::path& folder, const Fence& fence, int keep) {
  const auto present = TRY(list_checkpoints(folder));
  for (auto i = static_cast<std::size_t>(keep); i < present.size(); ++i)
    TRY(delete_all(TRY(retire_as(fence, present[i].path))));
  return {};
}

Result<void> remove_leftovers(const fs::path& folder) {
  for (const auto& path : TRY(list_folder(folder))) {
    const auto name = path.filename().string();
    if (name.starts_with(".step-") && name.ends_with(".tmp")) TRY(delete_all(path));
  }
  return {};
}

}  // namespace lockstep
