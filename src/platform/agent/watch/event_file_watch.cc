#include "platform/agent/watch/event_file_watch.h"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <span>
#include <system_error>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/log.h"
#include "base/os/files.h"
#include "base/os/processes.h"
#include "net/base64.h"
#include "platform/api/import_messages.h"
#include "platform/api/json.h"
#include "text/convert.h"
#include "text/json.h"

namespace lockstep::agent {
namespace {

namespace fs = std::filesystem;

constexpr Duration kEventFileInterval = std::chrono::seconds(1);
constexpr std::size_t kReadMax = 1 << 20;
constexpr std::size_t kFilesMax = 256;
// A folder may be large, or on a slow file system: it is searched this often, so deep and so far.
// After a minute without an event file it is searched more rarely.
constexpr Duration kFolderInterval = std::chrono::seconds(3);
constexpr Duration kRareFolderInterval = std::chrono::seconds(30);
constexpr int kFrequentSearches = 20;
constexpr int kFolderDepth = 4;
constexpr int kFolderEntries = 2'000;
constexpr std::size_t kWritersMax = 1'024;
// A writer makes an event of each scalar. Those of one step within this time are one item.
constexpr Duration kTogether = std::chrono::milliseconds(100);

// The names of the descriptors of a process; none if it has ended.
std::vector<fs::path> descriptors_of(pid_t pid) {
  std::vector<fs::path> found;
  std::error_code failed;
  for (fs::directory_iterator each(format("/proc/{}/fd", pid), failed), end; !failed && each != end;
       each.increment(failed))
    found.push_back(each->path());
  return found;
}

// Complete when it has its name. It need not survive its host, so it is not synced.
Result<void> write_whole(const fs::path& goal, std::string_view content) {
  TRY(make_folders(goal.parent_path()));
  const fs::path part = goal.parent_path() / ("." + goal.filename().string());
  TRY(write_all(TRY(open_file(part, O_WRONLY | O_CREAT | O_TRUNC)).get(), content));
  if (::rename(part.c_str(), goal.c_str()) != 0) return os_error("writing " + goal.string(), errno);
  return {};
}

}  // namespace

// One file, and what of it is not yet an item.
struct EventFileWatch::WatchedFile : event_file::EventSink {
  WatchedFile(Fd open, int of_rank, fs::path name_of, fs::path media_folder)
      : file(std::move(open)),
        rank(of_rank),
        name(std::move(name_of)),
        media(std::move(media_folder)) {}

  // False: there is no more now.
  bool read() {
    if (is_damaged) return false;
    const std::size_t kept = rest.size();
    rest.resize(kept + kReadMax);
    const ssize_t got = ::read(file.get(), rest.data() + kept, kReadMax);
    rest.resize(kept + static_cast<std::size_t>(std::max<ssize_t>(got, 0)));
    if (got > 0) take_records();
    return got > 0 && !is_damaged;
  }

  void take_records() {
    std::size_t done = 0;
    for (;;) {
      const auto size = reader.next(std::string_view(rest).substr(done), *this);
      if (!size) {
        is_damaged = true;
        LS_LOG(warning, "{}: {}; it is not read further", name.string(), size.error().message);
        return rest.clear();
      }
      if (*size == 0) break;
      done += *size;
    }
    rest.erase(0, done);
  }

  void add(const event_file::EventScalar& scalar) override {
    const bool joins = !items.empty() && items.back().step == scalar.step &&
                       scalar.time - items.back().time <= kTogether &&
                       scalar.time >= items.back().time &&
                       !items.back().values.contains(std::string(scalar.tag));
    if (!joins)
      items.push_back({.kind = spool::TelemetryKind::metrics,
                       .rank = rank,
                       .step = scalar.step,
                       .time = scalar.time});
    items.back().values.emplace(scalar.tag, scalar.value);
  }
  void add(event_file::EventImage image) override {
    write({.kind = api::MediaKind::image,
           .name = std::move(image.tag),
           .step = image.step,
           .time = image.time,
           .rank = rank,
           .index = image.index,
           .data = net::to_base64(std::as_bytes(std::span(image.bytes)))});
  }
  void add(event_file::EventHistogram histogram) override {
    write({.kind = api::MediaKind::histogram,
           .name = std::move(histogram.tag),
           .step = histogram.step,
           .time = histogram.time,
           .rank = rank,
           .edges = std::move(histogram.edges),
           .counts = std::move(histogram.counts)});
  }

  void write(const api::MediaRequest& request) {
    const fs::path goal = media / format("events-{}-{:09}.json", rank, ++written);
    const auto done = write_whole(goal, dump_json(without_nulls(to_json(request))));
    if (!done) LS_LOG(warning, "an image or a histogram: {}", done.error().message);
  }

  const Fd file;
  const int rank;
  const fs::path name;
  const fs::path media;
  event_file::EventReader reader;
  std::string rest;
  std::vector<spool::TelemetryItem> items;
  std::int64_t written = 0;
  bool is_damaged = false;
};

EventFileWatch::EventFileWatch(int first_rank, std::vector<pid_t> ranks, fs::path media)
    : first_rank_(first_rank), ranks_(std::move(ranks)), media_(std::move(media)) {}

void EventFileWatch::find_files() {
  const std::vector<Process> all = processes_of_user();
  for (std::size_t local = 0; local < ranks_.size(); ++local) {
    const int rank = first_rank_ + static_cast<int>(local);
    look_at(ranks_[local], rank);
    for (const Process& process : descendants(all, ranks_[local])) look_at(process.pid, rank);
  }
  if (!folders_due_.passed()) return;
  search_folders();
  const bool is_rare = files_.empty() && ++searches_ > kFrequentSearches;
  folders_due_ = Deadline::after(is_rare ? kRareFolderInterval : kFolderInterval);
}

void EventFileWatch::search_folders() {
  std::map<fs::path, std::vector<pid_t>> writers;
  for (const auto& [pid, writer] : writers_) writers[writer.folder].push_back(pid);
  for (const auto& [folder, pids] : writers) search(folder, pids);
}

void EventFileWatch::search(const fs::path& folder, const std::vector<pid_t>& writers) {
  std::error_code failed;
  int entries = 0;
  for (fs::recursive_directory_iterator
           each(folder, fs::directory_options::skip_permission_denied, failed),
       end;
       !failed && each != end && ++entries <= kFolderEntries; each.increment(failed)) {
    if (each.depth() >= kFolderDepth) each.disable_recursion_pending();
    const std::string name = each->path().filename().string();
    if (!event_file::is_event_file_name(name)) continue;
    for (const pid_t pid : writers)
      if (name.find(format(".{}.", pid)) != std::string::npos)
        watch(each->path(), each->path(), writers_.at(pid).rank);
  }
}

// The permissions of a link in /proc/PID/fd are those of the open file, as proc(5) says.
void EventFileWatch::look_at(pid_t pid, int rank) {
  std::error_code no_folder;
  const fs::path folder = fs::read_symlink(format("/proc/{}/cwd", pid), no_folder);
  if (!no_folder && (writers_.size() < kWritersMax || writers_.contains(pid)))
    writers_[pid] = {rank, folder};
  for (const fs::path& link : descriptors_of(pid)) {
    std::error_code failed;
    const fs::path target = fs::read_symlink(link, failed);
    if (failed || !event_file::is_event_file_name(target.filename().string())) continue;
    struct stat of_link{};
    if (::lstat(link.c_str(), &of_link) == 0 && (of_link.st_mode & S_IWUSR) != 0)
      watch(link, target, rank);
  }
}

void EventFileWatch::watch(const fs::path& path, const fs::path& name, int rank) {
  struct stat of_file{};
  if (::stat(path.c_str(), &of_file) != 0 || !S_ISREG(of_file.st_mode)) return;
  const auto key = std::pair(of_file.st_dev, of_file.st_ino);
  if (files_.contains(key) || files_.size() >= kFilesMax) return;
  auto file = open_file(path, O_RDONLY | O_NONBLOCK);
  if (!file) return;
  LS_LOG(info, "rank {} writes {}", rank, name.string());
  files_.emplace(key, std::make_shared<WatchedFile>(*std::move(file), rank, name, media_));
}

std::vector<spool::TelemetryItem> EventFileWatch::poll() {
  due_ = Deadline::after(kEventFileInterval);
  find_files();
  std::vector<spool::TelemetryItem> items;
  for (auto& [key, file] : files_) {
    file->read();
    for (spool::TelemetryItem& item : file->items) items.push_back(std::move(item));
    file->items.clear();
  }
  return items;
}

std::vector<spool::TelemetryItem> EventFileWatch::finish() {
  search_folders();
  std::vector<spool::TelemetryItem> items;
  for (auto& [key, file] : files_) {
    while (file->read()) {
    }
    for (spool::TelemetryItem& item : file->items) items.push_back(std::move(item));
    file->items.clear();
  }
  return items;
}

}  // namespace lockstep::agent
