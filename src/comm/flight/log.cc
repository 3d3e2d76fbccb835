#include "comm/flight/log.h"

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <utility>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/format.h"
#include "base/os/files.h"
#include "base/os/processes.h"
#include "comm/flight/process_identity.h"

namespace lockstep::comm {
namespace {

namespace fs = std::filesystem;
using namespace flight_format;
using PlainSlot = Slot<std::uint64_t>;
using PlainHeader = Header<std::uint64_t>;
using PlainMoment = ClockSample<std::uint64_t>;

constexpr int kRanks = 1 << 24;
// Times farther from the start of the record are damage.
constexpr double kFarthest = 1e18;  // nanoseconds: 31 years
constexpr std::uint64_t kYear2096 = 4'000'000'000'000'000'000;
// The newer rate is used if it covers more than this time, and must be near the first rate.
constexpr double kRateSpan = 1e7;  // nanoseconds
constexpr double kRateDrift = 0.01;
// The number of times that a file is read again for parts that its rank wrote during the read.
constexpr int kReadings = 4;

template <class T>
T read_as(std::span<const std::byte> bytes) {
  T value;
  std::memcpy(static_cast<void*>(&value), bytes.data(), sizeof value);
  return value;
}

std::span<const std::byte> slot_bytes(std::span<const std::byte> file, std::size_t slot) {
  return file.subspan(kHeaderBytes + slot * sizeof(PlainSlot), sizeof(PlainSlot));
}

// Up to the first zero. Control characters, which could affect a terminal, become question marks.
std::string read_text(const void* data, std::size_t bytes) {
  std::string content(static_cast<const char*>(data), bytes);
  content.resize(std::min(content.find('\0'), content.size()));
  for (char& letter : content)
    if (letter < ' ' || letter > '~') letter = '?';
  return content;
}

std::string name_of(const Names& names, std::uint8_t code) {
  if (code == kNoCode) return {};
  auto name = code < kNames ? read_text(names[code], kNameBytes) : std::string();
  return name.empty() ? format("code {}", code) : name;
}

// Converts ticks to UTC, by the newest sample of all clocks.
class Timeline {
 public:
  static Result<Timeline> of(const PlainHeader& header) {
    const double rate = header.nanoseconds_per_tick;
    if (!(rate >= 1e-3 && rate <= 1e6) || !plausible(header.first))
      return Error{Code::corrupt, "its clocks make no sense"};
    Timeline timeline(header.first, rate);
    if (plausible(header.latest)) timeline.refine(header.first, header.latest);
    return timeline;
  }

  std::optional<FlightTime> at(std::uint64_t ticks) const {
    const double away = since(anchor_, ticks) * rate_;
    if (std::abs(away) > kFarthest) return std::nullopt;
    return FlightTime(Nanoseconds(static_cast<std::int64_t>(anchor_.wall) + std::llround(away)));
  }
  std::optional<Nanoseconds> span(std::uint64_t ticks) const {
    const double long_as = static_cast<double>(ticks) * rate_;
    if (long_as > kFarthest) return std::nullopt;
    return Nanoseconds(std::llround(long_as));
  }

 private:
  Timeline(const PlainMoment& anchor, double rate) : anchor_(anchor), rate_(rate) {}

  static bool plausible(const PlainMoment& moment) {
    return moment.version != 0 && moment.version % 2 == 0 && moment.wall < kYear2096;
  }
  static double since(const PlainMoment& moment, std::uint64_t ticks) {
    return static_cast<double>(static_cast<std::int64_t>(ticks - moment.ticks));
  }
  void refine(const PlainMoment& first, const PlainMoment& latest) {
    const auto passed =
        static_cast<double>(static_cast<std::int64_t>(latest.steady - first.steady));
    const double rate = passed / since(first, latest.ticks);
    if (!(std::abs(rate / rate_ - 1) < kRateDrift)) return;
    anchor_ = latest;
    if (passed >= kRateSpan) rate_ = rate;
  }

  PlainMoment anchor_;
  double rate_;
};

// Reads a time that may be missing; false when it is invalid.
bool read_time(const Timeline& timeline, std::uint64_t ticks, std::optional<FlightTime>& time) {
  if (ticks == 0) return true;
  time = timeline.at(ticks);
  return time.has_value();
}

bool read_times(const Timeline& timeline, const PlainSlot& slot, FlightOperation& operation) {
  const auto enqueued = timeline.at(slot.enqueued);
  if (!enqueued || slot.enqueued == 0) return false;
  operation.enqueued = *enqueued;
  return read_time(timeline, slot.started, operation.started) &&
         read_time(timeline, slot.ended, operation.ended);
}

using Ranks = std::vector<int>;  // global ranks, by rank in the group

// False when a recorder cannot have written these numbers. A send's or recv's root is its tag.
bool read_ranks(const Ranks& members, const PlainSlot& slot, const Timeline& timeline,
                FlightOperation& operation) {
  const auto root = static_cast<std::int32_t>(slot.codes >> 32);
  const auto peer = static_cast<std::int32_t>(slot.peers & 0xffffffff);
  const auto waited_for = static_cast<std::int32_t>(slot.peers >> 32);
  const auto size = static_cast<std::int32_t>(members.size());
  const auto number = [&](std::int32_t rank) { return members[static_cast<std::size_t>(rank)]; };
  if (peer >= size || peer < kAnyPeer || waited_for >= size) return false;
  if (peer >= 0 || peer == kAnyPeer) operation.peer = peer >= 0 ? number(peer) : kAnyPeer;
  if (root >= 0) operation.root = operation.peer || root >= size ? root : number(root);
  if (waited_for < 0 || operation.state == FlightState::done) return true;
  const auto since = timeline.at(slot.waiting_since);
  if (!since || slot.wait_reason > static_cast<std::uint64_t>(WaitReason::send_data)) return false;
  operation.wait = {number(waited_for), static_cast<WaitReason>(slot.wait_reason), *since};
  return true;
}

// Nullopt for an invalid peer, or a wait longer than the operation.
std::optional<FlightPeerWait> peer_time(const Ranks& members, const Timeline& timeline,
                                        std::uint64_t peer, std::uint64_t ticks, Nanoseconds took) {
  if (peer == 0 || peer > members.size()) return std::nullopt;
  const auto span = timeline.span(ticks);
  if (!span || *span > took) return std::nullopt;
  return FlightPeerWait{members[peer - 1], *span};
}

void read_peer_times(const Ranks& members, const PlainSlot& slot, const Timeline& timeline,
                     FlightOperation& operation) {
  if (operation.state != FlightState::done || !operation.is_collective()) return;
  const auto took = *operation.ended - *operation.started;
  const auto time = [&](std::uint64_t peer, std::uint64_t ticks) {
    return peer_time(members, timeline, peer, ticks, took);
  };
  operation.longest_send_wait = time(slot.longest_peers & 0xffffffff, slot.longest_send_wait);
  operation.longest_receive_wait = time(slot.longest_peers >> 32, slot.longest_receive_wait);
}

// True if state and times are consistent.
bool is_consistent(const FlightOperation& operation) {
  const bool over = operation.state >= FlightState::done;
  const bool was_started = operation.started.has_value();
  if (over != operation.ended.has_value()) return false;
  return operation.state == FlightState::failed ||
         was_started == (operation.state != FlightState::queued);
}

std::optional<FlightOperation> read_slot(const PlainHeader& header, const Ranks& members,
                                         const Timeline& timeline, const PlainSlot& slot) {
  const auto code = [&](int index) { return static_cast<std::uint8_t>(slot.codes >> (8 * index)); };
  if (code(0) > static_cast<std::uint8_t>(FlightState::failed)) return std::nullopt;
  if (slot.bytes > INT64_MAX || slot.received_bytes > INT64_MAX) return std::nullopt;
  FlightOperation operation;
  operation.sequence = slot.sequence;
  operation.state = static_cast<FlightState>(code(0));
  operation.name = name_of(header.operations, code(1));
  operation.receives = code(1) == header.receive;
  operation.type = name_of(header.types, code(2));
  operation.reduction = name_of(header.reductions, code(3));
  operation.label = read_text(slot.label, sizeof slot.label);
  operation.bytes = Bytes(static_cast<std::int64_t>(slot.bytes));
  operation.received = Bytes(static_cast<std::int64_t>(slot.received_bytes));
  if (!read_times(timeline, slot, operation) || !is_consistent(operation)) return std::nullopt;
  if (!read_ranks(members, slot, timeline, operation)) return std::nullopt;
  read_peer_times(members, slot, timeline, operation);
  return operation;
}

void read_slots(const PlainHeader& header, const Timeline& timeline,
                std::span<const std::byte> bytes, FlightLog& log) {
  std::vector<std::pair<std::uint64_t, FlightOperation>> numbered;
  for (std::size_t i = 0; i < header.slots; ++i) {
    const auto slot = read_as<PlainSlot>(slot_bytes(bytes, i));
    if (slot.version == 0) continue;
    auto operation = slot.version % 2 == 0 && slot.number != 0
                         ? read_slot(header, log.members, timeline, slot)
                         : std::nullopt;
    if (operation)
      numbered.emplace_back(slot.number, *std::move(operation));
    else
      ++log.unreadable;
  }
  std::ranges::stable_sort(numbered, {}, &std::pair<std::uint64_t, FlightOperation>::first);
  for (auto& [number, operation] : numbered) log.operations.push_back(std::move(operation));
}

// If the members of a group did not fit into the record, the numbers are ranks of the group.
void read_members(const PlainHeader& header, FlightLog& log) {
  auto members =
      parse_rank_ranges(read_text(header.members, sizeof header.members), header.size, kRanks);
  log.name = read_text(header.name, sizeof header.name);
  if (log.name.empty()) log.name = log.group;
  if (!members && log.name != "world") log.name += " (ranks numbered within the group)";
  log.members = members ? *std::move(members) : GroupRanks::world(header.size).ranks;
  log.rank = log.members[static_cast<std::size_t>(header.rank)];
}

Result<void> check(const PlainHeader& header) {
  if (std::memcmp(header.magic, kMagic, sizeof kMagic) != 0)
    return Error{Code::corrupt, "it does not begin as a flight record does"};
  if (header.format != kFormat || header.slots > kSlots)
    return Error{Code::corrupt, format("it has format {} with {} operations, this Lockstep reads "
                                       "format {} with {} at most",
                                       header.format, header.slots, kFormat, kSlots)};
  if (header.size < 1 || header.size > kRanks || header.rank < 0 || header.rank >= header.size)
    return Error{Code::corrupt, format("rank {} of {} makes no sense", header.rank, header.size)};
  return {};
}

Result<std::string> read_bytes(int fd) {
  std::string bytes(kFileBytes + 1, '\0');
  std::size_t done = 0;
  for (ssize_t got = 1; got != 0 && done < bytes.size();) {
    got = ::pread(fd, bytes.data() + done, bytes.size() - done, static_cast<off_t>(done));
    if (got < 0 && errno != EINTR) return os_error("reading it", errno);
    done += static_cast<std::size_t>(std::max<ssize_t>(got, 0));
  }
  bytes.resize(done);
  return bytes;
}

// Calls visit(offset, bytes) for each part of a file that begins with a version.
template <class Visit>
void for_each_versioned(const std::string& file, Visit visit) {
  if (file.size() != kFileBytes) return;
  visit(offsetof(PlainHeader, latest), sizeof(PlainMoment));
  for (std::size_t at = kHeaderBytes; at < file.size(); at += sizeof(PlainSlot))
    visit(at, sizeof(PlainSlot));
}

// A copy may mix several states. A part that is the same in two consecutive readings, with an even
// version, was not written between them, and so is complete in both. A part that changed each time
// keeps an odd version.
Result<std::string> read_steadily(int fd) {
  std::string before = TRY(read_bytes(fd));
  std::string kept = before;
  for_each_versioned(
      kept, [&](std::size_t at, std::size_t) { kept[at] = static_cast<char>(kept[at] | 1); });
  for (int i = 1; i < kReadings; ++i) {
    std::string after = TRY(read_bytes(fd));
    if (after.size() != kept.size()) return Error{Code::unavailable, "its size changes"};
    for_each_versioned(kept, [&](std::size_t at, std::size_t bytes) {
      if (before.compare(at, bytes, after, at, bytes) == 0)
        kept.replace(at, bytes, after, at, bytes);
    });
    before = std::move(after);
  }
  return kept;
}

Result<std::string> read_opened(int fd) {
  struct stat status{};
  if (::fstat(fd, &status) != 0) return os_error("looking at it", errno);
  if (!S_ISREG(status.st_mode)) return Error{Code::corrupt, "it is no file"};
  return read_steadily(fd);
}

struct Copied {
  std::string bytes;
  FlightLog log;
};

Result<Copied> copy_record(const fs::path& path) {
  // Does not block: a pipe with this name would otherwise block forever.
  const Fd fd = TRY(open_file(path, O_RDONLY | O_NONBLOCK));
  const auto refused = [&](Error error) {
    return std::move(error).with_context(format("{} is no flight record", path.string()));
  };
  auto bytes = read_opened(fd.get());
  if (!bytes) return refused(std::move(bytes).error());
  auto log = parse_flight(std::as_bytes(std::span(*bytes)));
  if (!log) return refused(std::move(log).error());
  return Copied{*std::move(bytes), *std::move(log)};
}

}  // namespace

FlightTime FlightLog::last_seen() const {
  FlightTime last = recorded_since;
  for (const FlightOperation& operation : operations) {
    last = std::max(last, operation.ended.value_or(operation.started.value_or(operation.enqueued)));
    if (operation.wait) last = std::max(last, operation.wait->since);
  }
  return last;
}

Result<FlightLog> parse_flight(std::span<const std::byte> bytes) {
  if (bytes.size() < kHeaderBytes || bytes.size() > kFileBytes)
    return Error{Code::corrupt,
                 format("it has {} bytes, a flight record has {}", bytes.size(), kFileBytes)};
  const auto header = read_as<PlainHeader>(bytes);
  TRY(check(header));
  if (bytes.size() != kHeaderBytes + header.slots * sizeof(PlainSlot))
    return Error{Code::corrupt,
                 format("it has {} bytes, which is not {} operations", bytes.size(), header.slots)};
  const Timeline timeline = TRY(Timeline::of(header));
  FlightLog log;
  log.size = header.size;
  log.group = read_text(header.group, sizeof header.group);
  read_members(header, log);
  log.host = read_text(header.host, sizeof header.host);
  if (header.launch_rank > 0 && header.launch_rank <= kRanks)
    log.launch_rank = static_cast<int>(header.launch_rank - 1);
  log.pid = static_cast<int>(header.pid & 0x7fffffff);
  log.process_start = header.process_start;
  log.pid_space = read_text(header.pid_space, sizeof header.pid_space);
  log.recorded_since = FlightTime(Nanoseconds(static_cast<std::int64_t>(header.first.wall)));
  log.dropped = header.dropped;
  read_slots(header, timeline, bytes, log);
  return log;
}

Result<std::vector<std::byte>> copy_flight_file(const fs::path& path) {
  const Copied copied = TRY(copy_record(path));
  const auto bytes = std::as_bytes(std::span(copied.bytes));
  return std::vector<std::byte>(bytes.begin(), bytes.end());
}

Result<FlightLog> read_flight_file(const fs::path& path) {
  FlightLog log = TRY(copy_record(path)).log;
  log.process = state_of_process(log);
  return log;
}

ProcessState state_of_process(const FlightLog& log) {
  if (log.pid_space.empty() || log.pid_space != pid_space()) return ProcessState::unknown;
  const auto process = find_process(log.pid);
  if (!process || process->started != log.process_start) return ProcessState::ended;
  return process->state == 'T' || process->state == 't' ? ProcessState::stopped
                                                        : ProcessState::runs;
}

bool is_flight_file(const fs::path& path) {
  const std::string name = path.filename().string();
  return name.ends_with(kFlightFileExtension) && !name.starts_with('.');
}

}  // namespace lockstep::comm
