#include "comm/choice/tuned.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string>

#include "base/format.h"

namespace lockstep::comm {
namespace {

bool are_of_the_same_calls(const map::TunedRange& a, const map::TunedRange& b) {
  return a.operation == b.operation && a.hosts == b.hosts && a.ranks == b.ranks;
}

Bytes middle(std::size_t a, std::size_t b) {
  return Bytes(std::llround(std::sqrt(static_cast<double>(a)) * std::sqrt(static_cast<double>(b))));
}

}  // namespace

std::optional<CallPlan> tuned_plan(Operation operation, std::size_t bytes, const GroupShape& group,
                                   std::span<const map::TunedRange> tuned) {
  const map::TunedRange* nearest = nullptr;
  for (const map::TunedRange& range : tuned) {
    if (range.operation != text(operation) || range.hosts != group.hosts ||
        range.ranks != group.ranks || static_cast<std::size_t>(range.up_to.count()) < bytes)
      continue;
    if (nearest == nullptr || range.up_to < nearest->up_to) nearest = &range;
  }
  if (nearest == nullptr) return std::nullopt;
  const auto plan = parse_plan(nearest->plan);
  if (!plan || !fits(*plan, operation, bytes, group)) return std::nullopt;
  return *plan;
}

Result<void> check_tuned(std::span<const map::TunedRange> tuned) {
  for (const map::TunedRange& range : tuned)
    if (auto plan = parse_plan(range.plan); !plan)
      return std::move(plan).error().with_context(format(
          "what was tuned for {} of up to {}", range.operation, lockstep::text(range.up_to)));
  return {};
}

std::vector<map::TunedRange> tuned_ranges(Operation operation, const GroupShape& group,
                                          std::span<const TunedCall> calls) {
  std::vector<map::TunedRange> ranges;
  for (std::size_t i = 0; i < calls.size(); ++i) {
    const bool is_last = i + 1 == calls.size();
    if (!is_last && calls[i].plan == calls[i + 1].plan) continue;
    const Bytes up_to = is_last ? Bytes(static_cast<std::int64_t>(calls[i].bytes))
                                : middle(calls[i].bytes, calls[i + 1].bytes);
    ranges.push_back(
        {std::string(text(operation)), group.hosts, group.ranks, up_to, text(calls[i].plan)});
  }
  return ranges;
}

std::vector<map::TunedRange> merge_tuned(std::span<const map::TunedRange> before,
                                         std::span<const map::TunedRange> found) {
  std::vector<map::TunedRange> all;
  for (const map::TunedRange& range : before)
    if (std::ranges::none_of(found, [&](const map::TunedRange& other) {
          return are_of_the_same_calls(range, other);
        }))
      all.push_back(range);
  all.insert(all.end(), found.begin(), found.end());
  return all;
}

}  // namespace lockstep::comm
