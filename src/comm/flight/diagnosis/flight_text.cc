#include "comm/flight/diagnosis/flight_text.h"

#include <algorithm>
#include <cmath>
#include <cstddef>

#include "base/format.h"

namespace lockstep::comm {
namespace {

constexpr std::size_t kNamedRanks = 4;

std::string in_brackets(const std::vector<std::string>& parts) {
  return parts.empty() ? "" : format("({})", joined(parts, ", "));
}

}  // namespace

std::string short_call_text(const FlightOperation& operation) {
  std::vector<std::string> parts;
  if (!operation.label.empty()) parts.push_back(operation.label);
  if (operation.bytes > 0_B) parts.push_back(lockstep::text(operation.bytes));
  return format("#{} {}{}", operation.sequence, operation.name, in_brackets(parts));
}

std::string full_call_text(const FlightOperation& operation) {
  std::vector<std::string> parts;
  if (!operation.label.empty()) parts.push_back(operation.label);
  if (operation.root)
    parts.push_back(format("{} {}", operation.is_collective() ? "root" : "tag", *operation.root));
  if (!operation.type.empty())
    parts.push_back(operation.reduction.empty()
                        ? operation.type
                        : format("{} {}", operation.type, operation.reduction));
  parts.push_back(format("{} bytes", operation.bytes.count()));
  return operation.name + in_brackets(parts);
}

std::string ranks_text(const std::vector<int>& ranks) {
  if (ranks.size() == 1) return format("rank {}", ranks.front());
  const bool all = ranks.size() <= kNamedRanks;
  const std::vector<int> named(ranks.begin(),
                               all ? ranks.end() - 1 : ranks.begin() + std::ptrdiff_t{kNamedRanks});
  return all ? format("ranks {} and {}", joined(named, ", "), ranks.back())
             : format("ranks {} and {} more", joined(named, ", "), ranks.size() - kNamedRanks);
}

std::string process_text(const FlightLog& log) {
  const auto process = format("; its process {} on {}", log.pid, log.host);
  if (log.process == ProcessState::ended) return process + " has ended";
  if (log.process == ProcessState::stopped) return process + " is stopped (SIGSTOP or a debugger)";
  return {};
}

std::string duration_text(Nanoseconds span) {
  span = std::max(span, Nanoseconds(0));
  if (span > Nanoseconds(0) && span < std::chrono::microseconds(1))
    return format("{}ns", span.count());
  return lockstep::text(std::chrono::duration_cast<Duration>(span));
}

int percent_of(double share) { return static_cast<int>(std::lround(share * 100)); }

}  // namespace lockstep::comm
