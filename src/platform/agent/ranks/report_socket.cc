#include "platform/agent/ranks/report_socket.h"

#include <algorithm>
#include <cerrno>
#include <optional>

#include <sys/socket.h>
#include <sys/un.h>

#include "base/clock.h"
#include "base/log.h"
#include "text/convert.h"

namespace lockstep::agent {
namespace {

constexpr std::size_t kConnectionsPerRankMax = 64;
constexpr int kReceivesAtOnce = 16;  // of 64 KiB; then the other connections are read
constexpr Duration kAcceptRetryDelay = std::chrono::milliseconds(200);
constexpr std::int64_t kBrokenLinesLogged = 10;

// The kinds of items that ranks report, and the fault.
enum class ReportKind { metrics, progress, checkpoint, event, fault };
constexpr auto enum_names(ReportKind) {
  return names<ReportKind>({{ReportKind::metrics, "metrics"},
                            {ReportKind::progress, "progress"},
                            {ReportKind::checkpoint, "checkpoint"},
                            {ReportKind::event, "event"},
                            {ReportKind::fault, "fault"}});
}

struct ReportLine {
  ReportKind kind = ReportKind::metrics;
  std::int64_t step = 0;
  std::int64_t steps = 0;
  std::optional<std::int64_t> time_us;
  std::map<std::string, double> values;
  std::string path;
  std::string text;
  report::Fault fault = report::Fault::none;
  int rank = -1;

  static constexpr auto fields() {
    return record<ReportLine>(required(field("kind", &ReportLine::kind, "what it tells of")),
                              field("step", &ReportLine::step, "training step"),
                              field("steps", &ReportLine::steps, "steps planned"),
                              field("time_us", &ReportLine::time_us, "when, since 1970"),
                              field("values", &ReportLine::values, "metrics by name"),
                              field("path", &ReportLine::path, "of the checkpoint"),
                              field("text", &ReportLine::text, "of the event or fault"),
                              field("fault", &ReportLine::fault, "why the rank must end"),
                              field("rank", &ReportLine::rank, "the rank at fault"));
  }
};

// Times that a clock can show; text of other times cannot be parsed.
bool is_time(std::int64_t time_us) { return time_us >= 0 && time_us < 253'402'300'800'000'000; }

Result<sockaddr_un> address_of(const std::filesystem::path& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  const std::string& words = path.native();
  if (words.size() >= sizeof address.sun_path)
    return Error{Code::invalid, format("the socket's path {} is longer than {} bytes", words,
                                       sizeof address.sun_path - 1)};
  std::ranges::copy(words, address.sun_path);
  return address;
}

spool::TelemetryKind item_kind(ReportKind kind) {
  switch (kind) {
    case ReportKind::metrics:
      return spool::TelemetryKind::metrics;
    case ReportKind::progress:
      return spool::TelemetryKind::progress;
    case ReportKind::checkpoint:
      return spool::TelemetryKind::checkpoint;
    case ReportKind::event:
    case ReportKind::fault:
      break;
  }
  return spool::TelemetryKind::event;
}

Result<RankReport> fault_of(ReportLine report) {
  if (report.fault == report::Fault::none)
    return Error{Code::invalid, "fault: must say why the rank ends, such as connection_lost"};
  return RankReport(FaultReport{report.fault, std::max(report.rank, -1), std::move(report.text)});
}

}  // namespace

Result<RankReport> parse_report(std::string_view line, int rank) {
  auto report = TRY(from_json<ReportLine>(TRY(parse_json(line))));
  if (report.kind == ReportKind::fault) return fault_of(std::move(report));
  if (report.time_us && !is_time(*report.time_us))
    return Error{Code::invalid, format("time_us {} is no time since 1970", *report.time_us)};
  const bool event = report.kind == ReportKind::event;
  if (event && report.text.empty())
    return Error{Code::invalid, "text: an event must say something"};
  return RankReport(spool::TelemetryItem{
      .kind = item_kind(report.kind),
      .rank = rank,
      .step = report.step,
      .steps = report.steps,
      .time = report.time_us ? Time(Duration(*report.time_us)) : SystemClock().now(),
      .text = std::move(event ? report.text : report.path),
      .values = std::move(report.values)});
}

Result<ReportSocket> ReportSocket::open(const std::filesystem::path& path, int rank, Sink sink) {
  sockaddr_un address = TRY(address_of(path));
  Fd socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!socket) return os_error("making the report socket", errno);
  if (::bind(socket.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) != 0 ||
      ::listen(socket.get(), SOMAXCONN) != 0)
    return os_error("listening on the report socket " + path.string(), errno);
  return ReportSocket(std::move(socket), rank, std::move(sink));
}

// At the connection limit new connections wait in the listener's queue, which is not polled then.
std::vector<int> ReportSocket::fds() const {
  std::vector<int> all;
  const bool waits = accept_retry_ && !accept_retry_->passed();
  if (connections_.size() < kConnectionsPerRankMax && !waits) all.push_back(listener_.get());
  for (const ReporterConnection& connection : connections_) all.push_back(connection.socket.get());
  return all;
}

void ReportSocket::read() {
  accept_all();
  std::erase_if(connections_,
                [this](ReporterConnection& connection) { return !read_from(connection); });
}

void ReportSocket::accept_all() {
  while (connections_.size() < kConnectionsPerRankMax) {
    Fd socket(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (!socket) return handle_accept_error(errno);
    connections_.push_back({std::move(socket), {}, false});
  }
}

// Otherwise the listener would stay readable and the loop would spin.
void ReportSocket::handle_accept_error(int error) {
  if (error == EAGAIN || error == EINTR || error == ECONNABORTED) return accept_retry_.reset();
  if (!accept_retry_)
    LS_LOG(warning, "{}; trying again", os_error("hearing a reporter", error).message);
  accept_retry_ = Deadline::after(kAcceptRetryDelay);
}

// False at the end. An incomplete last line of a killed rank is dropped.
bool ReportSocket::read_from(ReporterConnection& connection) {
  char buffer[1 << 16];
  for (int i = 0; i < kReceivesAtOnce; ++i) {
    ssize_t n = ::recv(connection.socket.get(), buffer, sizeof buffer, 0);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && errno == EAGAIN) return true;
    if (n <= 0) {
      if (!connection.line.empty()) count_broken("it ends in the middle");
      return false;
    }
    add_bytes(connection, {buffer, static_cast<std::size_t>(n)});
  }
  return true;
}

void ReportSocket::add_bytes(ReporterConnection& connection, std::string_view bytes) {
  while (!bytes.empty()) {
    std::size_t end = std::min(bytes.find('\n'), bytes.size());
    if (!connection.skipping) connection.line.append(bytes.substr(0, end));
    if (connection.line.size() > static_cast<std::size_t>(kReportLineMax.count())) {
      count_broken("it is longer than " + text(kReportLineMax));
      connection.skipping = true;
      connection.line.clear();
    }
    if (end == bytes.size()) return;
    handle_line(connection);
    bytes.remove_prefix(end + 1);
  }
}

void ReportSocket::handle_line(ReporterConnection& connection) {
  if (!std::exchange(connection.skipping, false) && !connection.line.empty()) {
    auto item = parse_report(connection.line, rank_);
    if (item)
      sink_(*std::move(item));
    else
      count_broken(item.error().message);
  }
  connection.line.clear();
}

void ReportSocket::count_broken(std::string_view why) {
  if (++broken_ <= kBrokenLinesLogged)
    LS_LOG(warning, "rank {} reported a line that cannot be read: {}{}", rank_, why,
           broken_ == kBrokenLinesLogged ? " (more of them are only counted)" : "");
}

}  // namespace lockstep::agent
