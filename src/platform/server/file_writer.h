// FileWriter: writes files on a thread of its own, so that a slow or hanging disk does not keep the
// daemon's thread.
//
// Waiting contents are in memory, up to a bound. A newer content of a file replaces one that waits.
// A write that fails is logged, and its content is lost.
#pragma once

#include <deque>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <thread>

#include "base/mutex.h"
#include "base/units.h"

namespace lockstep::server {

class FileWriter {
 public:
  explicit FileWriter(Bytes waiting_max = 64_MiB);
  ~FileWriter();  // writes what waits
  FileWriter(const FileWriter&) = delete;
  FileWriter& operator=(const FileWriter&) = delete;

  // The file appears at once with its whole content, and its folders with it. False: too much
  // waits, and it will not be written.
  bool write(const std::filesystem::path& file, std::string content) LS_EXCLUDES(mutex_);
  // The content of a file that is not written yet.
  std::optional<std::string> waiting(const std::filesystem::path& file) LS_EXCLUDES(mutex_);

 private:
  void work() LS_EXCLUDES(mutex_);
  // Waits for a file; none: no more will come.
  std::optional<std::filesystem::path> next_file() LS_EXCLUDES(mutex_);
  void write_one(const std::filesystem::path& file) LS_EXCLUDES(mutex_);

  const Bytes waiting_max_;
  Mutex mutex_;  // guards what follows
  Condition changed_;
  std::deque<std::filesystem::path> queue_ LS_GUARDED_BY(mutex_);
  std::map<std::filesystem::path, std::string> contents_ LS_GUARDED_BY(mutex_);
  Bytes size_ LS_GUARDED_BY(mutex_){0};
  bool ending_ LS_GUARDED_BY(mutex_) = false;
  std::thread thread_;  // the last member: it uses the others
};

}  // namespace lockstep::server
