// LeftSpool: reads what is in a spool file whose agent is gone; spool.h tells the format.
//
// Every item that was added whole and not dropped is given once, in the order of sequences, however
// the agent ended. It is not known here what was acknowledged: who reads asks for what comes after
// the last that it has stored. Lines that cannot be read are left out and counted.
#pragma once

#include <cstdint>
#include <filesystem>
#include <vector>

#include "base/fd.h"
#include "base/result.h"
#include "base/units.h"
#include "platform/item/item.h"

namespace lockstep {

class LeftSpool {
 public:
  // Looks through the file once (about 1 s a GiB) and keeps 24 bytes for each item. Nobody may be
  // writing. Code::not_found when there is no such file.
  static Result<LeftSpool> open(const std::filesystem::path& file);

  // The first items after this sequence, up to `most` bytes of JSON and at least one. None: that
  // was all.
  Result<std::vector<Item>> batch(std::int64_t after_sequence, Bytes most);

  // Lines that were met and could not be read.
  std::int64_t broken_lines() const { return broken_; }

 private:
  struct Line {
    std::int64_t sequence = 0;
    std::int64_t offset = 0;
    std::int64_t size = 0;  // without its end
  };
  explicit LeftSpool(Fd file) : file_(std::move(file)) {}
  Result<void> find_lines();
  void note(std::string_view head, std::int64_t offset, std::int64_t size);

  Fd file_;
  std::vector<Line> lines_;  // by sequence
  std::int64_t broken_ = 0;
};

}  // namespace lockstep
