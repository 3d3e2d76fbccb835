// ReportSocket: the socket on which one rank reports metrics, progress and checkpoints to its
// agent, one JSON object a line (docs/design/rank-interface.md). Each rank has its own socket, so
// reports need no sender. Unreadable lines are counted and skipped: a broken reporter must not
// affect the data of others.
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
#include "base/os/fd.h"
#include "base/result.h"
#include "base/units.h"
#include "platform/spool/telemetry_item.h"
#include "report/fault/fault.h"

namespace lockstep::agent {

inline constexpr Bytes kReportLineMax = 256_KiB;

// Why the rank must end, by its own report.
struct FaultReport {
  report::Fault fault = report::Fault::none;
  int rank = -1;  // the global rank at fault; -1: unknown
  std::string text{};

  bool operator==(const FaultReport&) const = default;
};
using RankReport = std::variant<spool::TelemetryItem, FaultReport>;

// Parses one line; fails if it is not JSON, of a kind that ranks must not report, or has fields of
// wrong types.
Result<RankReport> parse_report(std::string_view line, int rank);

class ReportSocket {
 public:
  using Sink = std::function<void(RankReport)>;

  static Result<ReportSocket> open(const std::filesystem::path& path, int rank, Sink sink);

  // To be polled for reading; they may change after each read(). Call read() when any is ready.
  // Nothing here blocks.
  std::vector<int> fds() const;
  void read();
  // No reporter is connected or waiting to connect.
  bool has_no_connections() const { return connections_.empty(); }
  std::int64_t broken_lines() const { return broken_; }

 private:
  struct ReporterConnection {
    Fd socket;
    std::string line;
    bool skipping = false;  // the line is too long and is dropped up to its end
  };

  ReportSocket(Fd listener, int rank, Sink sink)
      : listener_(std::move(listener)), rank_(rank), sink_(std::move(sink)) {}
  void accept_all();
  void handle_accept_error(int error);
  bool read_from(ReporterConnection& connection);
  void add_bytes(ReporterConnection& connection, std::string_view bytes);
  void handle_line(ReporterConnection& connection);
  void count_broken(std::string_view why);

  Fd listener_;
  std::optional<Deadline> accept_retry_;  // no file descriptor was left for a connection
  int rank_;
  Sink sink_;
  std::list<ReporterConnection> connections_;
  std::int64_t broken_ = 0;
};

}  // namespace lockstep::agent
