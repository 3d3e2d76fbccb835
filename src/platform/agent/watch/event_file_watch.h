// EventFileWatch: the event files of TensorBoard that the ranks write, read as they grow.
//
// A file counts if a process of a rank has it open for writing (/proc/PID/fd), or if it is below
// the folder of that process and its name has the process's number, as TensorBoard's own writer
// names its files, which it opens for each write only. So files of other runs in the same folder do
// not count, nor files that a viewer reads. It is kept open until the end, so
// its last records are read also after the rank has ended. An agent lives as long as its attempt,
// and a new attempt writes new files: no position needs to be stored.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <sys/types.h>

#include "base/clock.h"
#include "base/os/fd.h"
#include "platform/event_file/event_file.h"
#include "platform/spool/telemetry_item.h"

namespace lockstep::agent {

class EventFileWatch {
 public:
  // The ranks by their pids; `first_rank` is that of the first. Images and histograms are written
  // into `media` as requests of the API.
  EventFileWatch(int first_rank, std::vector<pid_t> ranks, std::filesystem::path media);

  Deadline due() const { return due_; }
  // Looks for new files, and reads at most 1 MiB of each.
  std::vector<spool::TelemetryItem> poll();
  // Reads the rest; the ranks have ended.
  std::vector<spool::TelemetryItem> finish();
  // A rank that was killed has another process now.
  void set_pid(int local_rank, pid_t pid) { ranks_.at(static_cast<std::size_t>(local_rank)) = pid; }

 private:
  struct WatchedFile;
  struct Writer {
    int rank = 0;
    std::filesystem::path folder{};
  };
  void find_files();
  void look_at(pid_t pid, int rank);
  void search_folders();
  void search(const std::filesystem::path& folder, const std::vector<pid_t>& writers);
  void watch(const std::filesystem::path& path, const std::filesystem::path& name, int rank);

  const int first_rank_;
  std::vector<pid_t> ranks_;
  const std::filesystem::path media_;
  Deadline due_ = Deadline::after(Duration(0));
  Deadline folders_due_ = Deadline::after(Duration(0));
  int searches_ = 0;
  std::map<pid_t, Writer> writers_;  // the processes of ranks, also those that have ended
  // Shared because WatchedFile is declared only. By device and number of the file.
  std::map<std::pair<dev_t, ino_t>, std::shared_ptr<WatchedFile>> files_;
};

}  // namespace lockstep::agent
