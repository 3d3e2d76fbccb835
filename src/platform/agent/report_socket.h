// ReportSocket: where one rank tells its agent of its metrics, progress and checkpoints; one JSON
// object a line (docs/design/agent.md). Each rank has a socket of its own, so that nothing
// needs to say who speaks. What cannot be read is counted and skipped: a broken reporter must not
// cost anybody else's numbers.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <list>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/clock.h"
#include "base/fd.h"
#include "base/result.h"
#include "base/units.h"
#include "platform/item/item.h"
#include "report/fault/fault.h"

namespace lockstep {

inline constexpr Bytes kReportLineMax = 256_KiB;

// Why the rank must end, as it says itself.
struct FaultReport {
  Fault fault = Fault::none;
  int rank = -1;  // the global rank at fault; -1: not known
  std::string text{};

  bool operator==(const FaultReport&) const = default;
};
using Report = std::variant<Item, FaultReport>;

// One line; fails when it is not JSON, of a kind that is not for ranks to report, or with fields of
// wrong types.
Result<Report> parse_report(std::string_view line, int rank);

class ReportSocket {
 public:
  using Sink = std::function<void(Report)>;

  static Result<ReportSocket> open(const std::filesystem::path& path, int rank, Sink sink);

  // To be polled for reading, each time anew; call read() when any is ready. Nothing here blocks.
  std::vector<int> fds() const;
  void read();
  // No speaker is connected or waiting to be.
  bool idle() const { return speakers_.empty(); }
  std::int64_t broken_lines() const { return broken_; }

 private:
  struct Speaker {
    Fd socket;
    std::string line;
    bool skipping = false;  // the line is too long; up to its end all is dropped
  };

  ReportSocket(Fd listener, int rank, Sink sink)
      : listener_(std::move(listener)), rank_(rank), sink_(std::move(sink)) {}
  void accept_all();
  void note_refusal(int error);
  bool read_from(Speaker& speaker);
  void take(Speaker& speaker, std::string_view bytes);
  void take_line(Speaker& speaker);
  void count_broken(std::string_view why);

  Fd listener_;
  std::optional<Deadline> accept_again_;  // no file descriptor was left for a speaker
  int rank_;
  Sink sink_;
  std::list<Speaker> speakers_;
  std::int64_t broken_ = 0;
};

}  // namespace lockstep
