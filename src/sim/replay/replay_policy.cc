#include "sim/replay/replay_policy.h"

#include <array>
#include <charconv>
#include <optional>

#include "base/format.h"
#include "text/nearest.h"

namespace lockstep::sim {
namespace {

struct Named {
  std::string_view name;
  SchedulingPolicy policy;
};

constexpr std::array kBases = {
    Named{"fifo", policies::kFifo},    Named{"fifo-greedy", policies::kFifoGreedy},
    Named{"easy", policies::kEasy},    Named{"sjf-strict", policies::kShortestStrict},
    Named{"sjf", policies::kShortest}, Named{"easy-sjbf", policies::kEasyShortest},
    Named{"ours", policies::kOurs},    Named{"ours-moves", policies::kOursWithMoves},
};
constexpr std::string_view kAged = "aged";

// Far from where the order's key, in microseconds, would overflow.
constexpr int kAgingMost = 1'000, kHoursMost = 100'000;

constexpr std::array kTimeouts = {
    Seconds(300),    Seconds(900),     Seconds(1'800),   Seconds(3'600),
    Seconds(7'200),  Seconds(14'400),  Seconds(28'800),  Seconds(43'200),
    Seconds(86'400), Seconds(172'800), Seconds(345'600), Seconds(604'800),
};

std::optional<int> whole(std::string_view words, int most) {
  int number = 0;
  const char* end = words.data() + words.size();
  const auto [stop, error] = std::from_chars(words.data(), end, number);
  if (error != std::errc() || stop != end || number < 1 || number > most) return std::nullopt;
  return number;
}

// "20" or "20x72".
std::optional<SchedulingPolicy> parse_aged(std::string_view words) {
  SchedulingPolicy policy{.order = Order::aged, .passing = Passing::backfill};
  const std::size_t cross = words.find('x');
  const auto aging = whole(words.substr(0, cross), kAgingMost);
  if (!aging) return std::nullopt;
  policy.aging = *aging;
  if (cross == std::string_view::npos) return policy;
  const auto hours = whole(words.substr(cross + 1), kHoursMost);
  if (!hours) return std::nullopt;
  policy.aging_cap = std::chrono::hours(*hours);
  return policy;
}

std::optional<SchedulingPolicy> parse_base(std::string_view words) {
  for (const Named& base : kBases)
    if (base.name == words) return base.policy;
  if (!words.starts_with(kAged)) return std::nullopt;
  return parse_aged(words.substr(kAged.size()));
}

struct Ending {
  std::string_view words;
  void (*apply)(ReplayPolicy&);
};

constexpr std::array kEndings = {
    Ending{"-est", [](ReplayPolicy& policy) { policy.estimates = Estimates::bucketed; }},
    Ending{"-defrag", [](ReplayPolicy& policy) { policy.policy.moves = true; }},
    Ending{"-fgd", [](ReplayPolicy& policy) { policy.policy.fit = Fit::fragmentation; }},
    Ending{"-first", [](ReplayPolicy& policy) { policy.policy.fit = Fit::first; }},
};

std::optional<ReplayPolicy> parse(std::string_view words) {
  for (const Ending& ending : kEndings) {
    if (!words.ends_with(ending.words)) continue;
    auto policy = parse(words.substr(0, words.size() - ending.words.size()));
    if (policy) ending.apply(*policy);
    return policy;
  }
  const auto base = parse_base(words);
  if (!base) return std::nullopt;
  return ReplayPolicy{.name = {}, .policy = *base};
}

Error unknown_policy(std::string_view name) {
  std::vector<std::string_view> known = {"aged20"};
  for (const Named& base : kBases) known.push_back(base.name);
  const std::string hint = did_you_mean(name, known);
  return {Code::invalid,
          format("there is no policy '{}'{} write fifo, fifo-greedy, easy, easy-sjbf, sjf, "
                 "sjf-strict, aged20, aged20x72, ours or ours-moves, and -est, -defrag or -first "
                 "behind it",
                 name, hint.empty() ? ";" : hint)};
}

}  // namespace

Result<ReplayPolicy> parse_policy(std::string_view name) {
  auto policy = parse(name);
  if (!policy) return unknown_policy(name);
  policy->name = name;
  return *std::move(policy);
}

Seconds estimate_of(Seconds duration, Estimates estimates) {
  if (estimates == Estimates::exact) return duration;
  for (const Seconds timeout : kTimeouts)
    if (timeout >= duration) return timeout;
  Seconds timeout = kTimeouts.back();
  while (timeout < duration) timeout *= 2;
  return timeout;
}

std::vector<Seconds> limits_of(const JobTrace& trace, Estimates estimates) {
  std::vector<Seconds> limits;
  for (const Job& job : trace.jobs) limits.push_back(estimate_of(job.duration, estimates));
  return limits;
}

}  // namespace lockstep::sim
