// PointLog: acknowledged points that are in no segment yet, in files `log-GENERATION`.
//
//   record: u32 size of the payload | u64 XXH3 of the payload, seeded by the generation | payload
//
// A record is one write(): when append() returns, the kernel has it, and it survives the process.
// Files are never changed after the process that wrote them. A cut or damaged record ends its file:
// what follows it is dropped, and counted. Not thread-safe.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/os/fd.h"
#include "base/result.h"
#include "platform/insight/series/codec/bytes.h"

namespace lockstep::insight::series {

class PointLog {
 public:
  using Visit = std::function<Result<void>(std::int64_t generation, ByteSpan payload)>;

  // Calls visit for each record of earlier processes, in order, and syncs their files. Appends to
  // `problems` what was dropped. The next generation is above all of these and above `sealed`.
  static Result<std::unique_ptr<PointLog>> open(const std::filesystem::path& folder,
                                                std::int64_t sealed, const Visit& visit,
                                                std::vector<std::string>& problems);

  std::int64_t generation() const { return generation_; }
  // Size of the current file.
  std::int64_t size() const { return size_; }

  // On an error the file has no part of the record.
  Result<void> append(std::string_view payload);
  // Further records go into the next generation.
  Result<void> rotate();
  // Removes the files up to this generation, the oldest first; not the current one.
  Result<void> remove_through(std::int64_t generation);

  // A file with records that may not be on the disk. Shared: it may be removed from the log while
  // it is synced.
  struct Unsynced {
    std::int64_t generation = 0;
    std::shared_ptr<const Fd> file;
  };
  // Forgets them, so that the caller syncs them, without a lock that append() needs.
  std::vector<Unsynced> take_unsynced();
  Result<void> sync(const Unsynced& unsynced) const;

 private:
  explicit PointLog(std::filesystem::path folder) : folder_(std::move(folder)) {}
  std::filesystem::path path_of(std::int64_t generation) const;
  Result<void> start(std::int64_t generation);

  const std::filesystem::path folder_;
  std::int64_t generation_ = 0;
  std::int64_t size_ = 0;
  bool cut_needed_ = false;                                  // a failed record could not be cut off
  std::map<std::int64_t, std::shared_ptr<const Fd>> files_;  // all; empty of earlier processes
  std::map<std::int64_t, std::shared_ptr<const Fd>> unsynced_;
  std::string record_;  // kept for its memory
};

}  // namespace lockstep::insight::series
