// AbandonedSpool: reads a spool file whose agent is gone; spool.h describes the format.
//
// Every item that was written completely and not dropped is returned once, in the order of
// sequences, however the agent ended. Acknowledgements are not in the file: the reader asks for
// items after the last one that it has stored. Unreadable lines are skipped and counted.
#pragma once

#include <cstdint>
#include <filesystem>
#include <vector>

#include "base/os/fd.h"
#include "base/result.h"
#include "base/units.h"
#include "platform/spool/telemetry_item.h"

namespace lockstep::spool {

class AbandonedSpool {
 public:
  // Scans the file once (about 1 s per GiB) and keeps 24 bytes for each item. No process may write
  // to the file. Code::not_found if there is no such file.
  static Result<AbandonedSpool> open(const std::filesystem::path& file);

  // The first items after this sequence, up to `most` bytes of JSON and at least one. Empty: there
  // are no more.
  Result<std::vector<TelemetryItem>> batch(std::int64_t after_sequence, Bytes most);

  // Unreadable lines found so far.
  std::int64_t broken_lines() const { return broken_; }

 private:
  struct Line {
    std::int64_t sequence = 0;
    std::int64_t offset = 0;
    std::int64_t size = 0;  // without the line end
  };
  explicit AbandonedSpool(Fd file) : file_(std::move(file)) {}
  Result<void> find_lines();
  void index_line(std::string_view head, std::int64_t offset, std::int64_t size);

  Fd file_;
  std::vector<Line> lines_;  // by sequence
  std::int64_t broken_ = 0;
};

}  // namespace lockstep::spool
