#include "platform/agent/report_socket.h"

#include <algorithm>
#include <cerrno>
#include <optional>

#include <sys/socket.h>
#include <sys/un.h>

#include "base/clock.h"
#include "base/log.h"
#include "text/convert.h"

namespace lockstep {
namespace {

constexpr std::size_t kSpeakersMax = 64;
constexpr int kReceivesAtOnce = 16;  // of 64 KiB; then the others have their turn
constexpr Duration kAcceptAgain = std::chrono::milliseconds(200);
constexpr std::int64_t kBrokenSaid = 10;

// The kinds of items that ranks report, and the fault.
enum class Kind { metrics, progress, checkpoint, event, fault };
constexpr auto enum_names(Kind) {
  return names<Kind>({{Kind::metrics, "metrics"},
                      {Kind::progress, "progress"},
                      {Kind::checkpoint, "checkpoint"},
                      {Kind::event, "event"},
                      {Kind::fault, "fault"}});
}

struct ReportLine {
  Kind kind = Kind::metrics;
  std::int64_t step = 0;
  std::int64_t steps = 0;
  std::optional<std::int64_t> time_us;
  std::map<std::string, double> values;
  std::string path;
  std::string text;
  Fault fault = Fault::none;
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

// Times that a clock can show; text of others would not read back.
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

ItemKind item_kind(Kind kind) {
  switch (kind) {
    case Kind::metrics:
      return ItemKind::metrics;
    case Kind::progress:
      return ItemKind::progress;
    case Kind::checkpoint:
      return ItemKind::checkpoint;
    case Kind::event:
    case Kind::fault:
      break;
  }
  return ItemKind::event;
}

Result<Report> fault_of(ReportLine said) {
  if (said.fault == Fault::none)
    return Error{Code::invalid, "fault: must say why the rank ends, such as connection_lost"};
  return Report(FaultReport{said.fault, std::max(said.rank, -1), std::move(said.text)});
}

}  // namespace

Result<Report> parse_report(std::string_view line, int rank) {
  auto said = TRY(from_json<ReportLine>(TRY(parse_json(line))));
  if (said.kind == Kind::fault) return fault_of(std::move(said));
  if (said.time_us && !is_time(*said.time_us))
    return Error{Code::invalid, format("time_us {} is no time since 1970", *said.time_us)};
  const bool event = said.kind == Kind::event;
  if (event && said.text.empty()) return Error{Code::invalid, "text: an event must say something"};
  return Report(Item{.kind = item_kind(said.kind),
                     .rank = rank,
                     .step = said.step,
                     .steps = said.steps,
                     .time = said.time_us ? Time(Duration(*said.time_us)) : SystemClock().now(),
                     .text = std::move(event ? said.text : said.path),
                     .values = std::move(said.values)});
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

// Who finds a full house waits in the listener's queue, which is not polled meanwhile.
std::vector<int> ReportSocket::fds() const {
  std::vector<int> all;
  const bool waits = accept_again_ && !accept_again_->passed();
  if (speakers_.size() < kSpeakersMax && !waits) all.push_back(listener_.get());
  for (const Speaker& speaker : speakers_) all.push_back(speaker.socket.get());
  return all;
}

void ReportSocket::read() {
  accept_all();
  std::erase_if(speakers_, [this](Speaker& speaker) { return !read_from(speaker); });
}

void ReportSocket::accept_all() {
  while (speakers_.size() < kSpeakersMax) {
    Fd socket(::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (!socket) return note_refusal(errno);
    speakers_.push_back({std::move(socket), {}, false});
  }
}

// Without this the listener would stay readable and the loop would turn without a pause.
void ReportSocket::note_refusal(int error) {
  if (error == EAGAIN || error == EINTR || error == ECONNABORTED) return accept_again_.reset();
  if (!accept_again_)
    LS_LOG(warning, "{}; trying again", os_error("hearing a reporter", error).message);
  accept_again_ = Deadline::after(kAcceptAgain);
}

// False at the end. What a rank that was killed left half said is no line.
bool ReportSocket::read_from(Speaker& speaker) {
  char buffer[1 << 16];
  for (int i = 0; i < kReceivesAtOnce; ++i) {
    ssize_t n = ::recv(speaker.socket.get(), buffer, sizeof buffer, 0);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && errno == EAGAIN) return true;
    if (n <= 0) {
      if (!speaker.line.empty()) count_broken("it ends in the middle");
      return false;
    }
    take(speaker, {buffer, static_cast<std::size_t>(n)});
  }
  return true;
}

void ReportSocket::take(Speaker& speaker, std::string_view bytes) {
  while (!bytes.empty()) {
    std::size_t end = std::min(bytes.find('\n'), bytes.size());
    if (!speaker.skipping) speaker.line.append(bytes.substr(0, end));
    if (speaker.line.size() > static_cast<std::size_t>(kReportLineMax.count())) {
      count_broken("it is longer than " + text(kReportLineMax));
      speaker.skipping = true;
      speaker.line.clear();
    }
    if (end == bytes.size()) return;
    take_line(speaker);
    bytes.remove_prefix(end + 1);
  }
}

void ReportSocket::take_line(Speaker& speaker) {
  if (!std::exchange(speaker.skipping, false) && !speaker.line.empty()) {
    auto item = parse_report(speaker.line, rank_);
    if (item)
      sink_(*std::move(item));
    else
      count_broken(item.error().message);
  }
  speaker.line.clear();
}

void ReportSocket::count_broken(std::string_view why) {
  if (++broken_ <= kBrokenSaid)
    LS_LOG(warning, "rank {} reported a line that cannot be read: {}{}", rank_, why,
           broken_ == kBrokenSaid ? " (more of them are only counted)" : "");
}

}  // namespace lockstep
