#include "platform/insight/series/detail/point_log.h"

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <optional>
#include <utility>

#include <fcntl.h>
#include <unistd.h>

#include "base/check.h"
#include "base/format.h"
#include "base/os/files.h"
#include "platform/insight/series/detail/hash.h"

namespace lockstep::insight::series {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kPrefix = "log-";
constexpr std::size_t kFileMax = std::size_t{1} << 32;

std::optional<std::int64_t> generation_of(const fs::path& path) {
  const std::string name = path.filename().string();
  if (!name.starts_with(kPrefix)) return std::nullopt;
  std::int64_t generation = 0;
  const auto [end, failed] =
      std::from_chars(name.data() + kPrefix.size(), name.data() + name.size(), generation);
  if (failed != std::errc() || end != name.data() + name.size()) return std::nullopt;
  return generation;
}

std::uint64_t hash_of_record(ByteSpan payload, std::int64_t generation) {
  return hash_of(payload, static_cast<std::uint64_t>(generation) + 1);
}

// Returns the number of bytes that hold no record.
Result<std::size_t> visit_records(ByteSpan content, std::int64_t generation,
                                  const PointLog::Visit& visit) {
  ByteReader reader(content);
  while (!reader.rest().empty()) {
    const std::size_t left = reader.rest().size();
    const auto size = reader.fixed<std::uint32_t>();
    const auto hash = reader.fixed<std::uint64_t>();
    const ByteSpan payload = reader.take(size);
    if (!reader.ok() || hash_of_record(payload, generation) != hash) return left;
    TRY(visit(generation, payload));
  }
  return std::size_t{0};
}

}  // namespace

fs::path PointLog::path_of(std::int64_t generation) const {
  return folder_ / format("{}{:08}", kPrefix, generation);
}

Result<std::unique_ptr<PointLog>> PointLog::open(const fs::path& folder, std::int64_t sealed,
                                                 const Visit& visit,
                                                 std::vector<std::string>& problems) {
  std::unique_ptr<PointLog> log(new PointLog(folder));
  for (const fs::path& path : TRY(list_folder(folder)))
    if (const auto generation = generation_of(path)) log->files_[*generation] = nullptr;
  std::int64_t newest = sealed;
  for (const auto& [generation, file] : log->files_) {
    newest = std::max(newest, generation);
    const fs::path path = log->path_of(generation);
    const std::string content = TRY(read_file(path, kFileMax));
    const std::size_t dropped = TRY(visit_records(bytes_of(content), generation, visit));
    if (dropped > 0)
      problems.push_back(format("{}: the last {} bytes are no complete record and were dropped",
                                path.string(), dropped));
    TRY(log->sync({generation, std::make_shared<const Fd>(TRY(open_file(path, O_RDONLY)))}));
  }
  TRY(log->start(newest + 1));
  return log;
}

Result<void> PointLog::start(std::int64_t generation) {
  auto file = std::make_shared<const Fd>(
      TRY(open_file(path_of(generation), O_WRONLY | O_CREAT | O_TRUNC | O_APPEND)));
  generation_ = generation;
  size_ = 0;
  cut_needed_ = false;
  files_[generation] = unsynced_[generation] = std::move(file);
  return {};
}

Result<void> PointLog::append(std::string_view payload) {
  LS_CHECK(payload.size() < kFileMax / 2);
  const int file = files_.at(generation_)->get();
  if (cut_needed_ && ::ftruncate(file, size_) != 0)
    return os_error("cutting " + path_of(generation_).string(), errno);
  cut_needed_ = false;
  record_.clear();
  put_fixed(record_, static_cast<std::uint32_t>(payload.size()));
  put_fixed(record_, hash_of_record(std::as_bytes(std::span(payload)), generation_));
  record_ += payload;
  if (auto written = write_all(file, record_); !written) {
    cut_needed_ = ::ftruncate(file, size_) != 0;
    return std::move(written).error().with_context("writing " + path_of(generation_).string());
  }
  size_ += static_cast<std::int64_t>(record_.size());
  unsynced_[generation_] = files_.at(generation_);
  return {};
}

Result<void> PointLog::rotate() { return start(generation_ + 1); }

Result<void> PointLog::remove_through(std::int64_t generation) {
  while (!files_.empty() && files_.begin()->first <= std::min(generation, generation_ - 1)) {
    const fs::path path = path_of(files_.begin()->first);
    if (::unlink(path.c_str()) != 0 && errno != ENOENT)
      return os_error("removing " + path.string(), errno);
    unsynced_.erase(files_.begin()->first);
    files_.erase(files_.begin());
  }
  return {};
}

std::vector<PointLog::Unsynced> PointLog::take_unsynced() {
  std::vector<Unsynced> all;
  for (auto& [generation, file] : std::exchange(unsynced_, {})) all.push_back({generation, file});
  return all;
}

Result<void> PointLog::sync(const Unsynced& unsynced) const {
  if (::fdatasync(unsynced.file->get()) != 0)
    return os_error("syncing " + path_of(unsynced.generation).string(), errno);
  return sync_folder(folder_);
}

}  // namespace lockstep::insight::series
