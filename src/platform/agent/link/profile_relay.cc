#include "platform/agent/link/profile_relay.h"

#include <cstddef>
#include <cstdint>
#include <vector>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/format.h"
#include "base/log.h"
#include "base/os/files.h"
#include "net/base64.h"
#include "text/convert.h"

namespace lockstep::agent {
namespace {

constexpr std::size_t kTraceStateMax = 16 << 10;
constexpr std::size_t kTracePartMax = 512 << 10;  // before base64, as the flight records

// A rank's report about itself, in its file.
struct RankTrace {
  std::string request_id = {};  // the newest that it has seen; empty: none
  api::TraceState state = api::TraceState::waiting;
  int steps = 0;
  std::string message = {};

  static constexpr auto fields() {
    return record<RankTrace>(field("request_id", &RankTrace::request_id, "of the order"),
                             field("state", &RankTrace::state, "how far the trace is"),
                             field("steps", &RankTrace::steps, "that it has recorded"),
                             field("message", &RankTrace::message, "why it failed"));
  }
};

Result<RankTrace> read_state(const std::filesystem::path& path) {
  return from_json<RankTrace>(TRY(parse_json(TRY(read_file(path, kTraceStateMax)))));
}

}  // namespace

std::optional<api::ProfileReport> ProfileRelay::report() const {
  if (!order_) return std::nullopt;
  api::ProfileReport report{.request_id = order_->request_id};
  bool has_part = false;  // of one rank in a call
  for (const api::TraceOrder& order : order_->ranks) {
    report.ranks.push_back(report_of(order));
    if (has_part || report.ranks.back().state != api::TraceState::done) continue;
    add_part(report.ranks.back());
    has_part = true;
  }
  return report;
}

api::TraceReport ProfileRelay::report_of(const api::TraceOrder& order) const {
  api::TraceReport report{.rank = order.rank, .offset = order.received};
  const auto state = read_state(file_of(order.rank, "json"));
  if (!state) return report;
  const bool has_seen = state->request_id == order_->request_id;
  report.state = has_seen ? state->state : api::TraceState::waiting;
  if (!has_seen) return report;
  report.steps = state->steps;
  report.message = state->message;
  return report;
}

void ProfileRelay::add_part(api::TraceReport& report) const {
  const auto file = open_file(file_of(report.rank, "gz"), O_RDONLY);
  struct stat status{};
  if (!file || ::fstat(file->get(), &status) != 0) {
    report.state = api::TraceState::failed;
    report.message = "its file is gone: ask again";
    return;
  }
  std::vector<std::byte> bytes(kTracePartMax);
  const ssize_t size = ::pread(file->get(), bytes.data(), bytes.size(), report.offset);
  bytes.resize(size > 0 ? static_cast<std::size_t>(size) : 0);
  report.bytes = net::to_base64(bytes);
  report.total = status.st_size;
}

bool ProfileRelay::pass_on(const std::optional<api::ProfileOrder>& order) {
  if (order == order_) return false;
  const bool is_same = order && order_ && order->request_id == order_->request_id;
  const auto path = folder_ / "order.json";
  order_ = order;
  if (is_same) return true;
  if (!order) {
    ::unlink(path.c_str());
  } else if (const auto written = write_file(path, dump_json(to_json(*order))); !written) {
    LS_LOG(warning, "ordering traces: {}", written.error().message);
  }
  return false;
}

std::filesystem::path ProfileRelay::file_of(int rank, std::string_view extension) const {
  return folder_ / format("rank-{}.{}", rank, extension);
}

}  // namespace lockstep::agent
