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
  sched::SchedulingPolicy policy;
  std::string_view about;
};

constexpr std::array kBases = {
    Named{"fifo", sched::policies::kFifo, "first come, first served; the head of the queue blocks"},
    Named{"fifo-greedy", sched::policies::kFifoGreedy, "the same, but any job that fits starts"},
    Named{"easy", sched::policies::kEasy,
          "fifo, and a run that does not delay the head may pass it"},
    Named{"easy-sjbf", sched::policies::kEasyShortest, "easy, the shortest behind the head first"},
    Named{"sjf", sched::policies::kShortest, "the shortest that fits starts"},
    Named{"sjf-strict", sched::policies::kShortestStrict, "the shortest first; the head blocks"},
    Named{"ours", sched::policies::kOurs, "aged20x72, over the queue until no job starts"},
    Named{"ours-moves", sched::policies::kOursWithMoves,
          "aged20; small jobs move or pause for debug jobs and large ones: the daemon's"},
};
constexpr std::string_view kAged = "aged";
constexpr std::array kAgedAbout = {
    PolicyNamePart{"aged20", "easy, by submission + 20 x length; or any other number"},
    PolicyNamePart{"aged20x72", "the same, where lengths count up to 72 hours"},
};

// Small enough that the order's key, in microseconds, does not overflow.
constexpr int kAgingMax = 1'000, kHoursMax = 100'000;

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
std::optional<sched::SchedulingPolicy> parse_aged(std::string_view words) {
  sched::SchedulingPolicy policy{.order = sched::QueueOrder::aged,
                                 .backfill_mode = sched::BackfillMode::easy};
  const std::size_t cross = words.find('x');
  const auto aging = whole(words.substr(0, cross), kAgingMax);
  if (!aging) return std::nullopt;
  policy.aging = *aging;
  if (cross == std::string_view::npos) return policy;
  const auto hours = whole(words.substr(cross + 1), kHoursMax);
  if (!hours) return std::nullopt;
  policy.aging_cap = std::chrono::hours(*hours);
  return policy;
}

std::optional<sched::SchedulingPolicy> parse_base(std::string_view words) {
  for (const Named& base : kBases)
    if (base.name == words) return base.policy;
  if (!words.starts_with(kAged)) return std::nullopt;
  return parse_aged(words.substr(kAged.size()));
}

struct PolicySuffix {
  std::string_view suffix;
  void (*apply)(ReplayPolicy&);
  std::string_view about;
};

constexpr std::array kEndings = {
    PolicySuffix{"-est", [](ReplayPolicy& policy) { policy.estimates = Estimates::bucketed; },
                 "lengths are known as users tell them, in steps from 5 min"},
    PolicySuffix{"-defrag", [](ReplayPolicy& policy) { policy.policy.moves = true; },
                 "small jobs are moved for a head that would fit"},
    PolicySuffix{"-first", [](ReplayPolicy& policy) { policy.policy.fit = sched::Fit::first; },
                 "the lowest hosts that fit, not the best"},
    PolicySuffix{"-fgd",
                 [](ReplayPolicy& policy) { policy.policy.fit = sched::Fit::fragmentation; },
                 "those that leave the least fragments"},
};

std::optional<ReplayPolicy> parse(std::string_view words) {
  for (const PolicySuffix& ending : kEndings) {
    if (!words.ends_with(ending.suffix)) continue;
    auto policy = parse(words.substr(0, words.size() - ending.suffix.size()));
    if (policy) ending.apply(*policy);
    return policy;
  }
  const auto base = parse_base(words);
  if (!base) return std::nullopt;
  return ReplayPolicy{.name = {}, .policy = *base};
}

Error unknown_policy(std::string_view name) {
  std::vector<std::string_view> known, endings;
  for (const PolicyNamePart& word : policy_name_parts())
    (word.name.starts_with('-') ? endings : known).push_back(word.name);
  const std::string hint = did_you_mean(name, known);
  return {Code::invalid,
          format("there is no policy '{}'{} write {}, and behind it {}", name,
                 hint.empty() ? ";" : hint, joined(known, ", "), joined(endings, ", "))};
}

}  // namespace

std::vector<PolicyNamePart> policy_name_parts() {
  std::vector<PolicyNamePart> words;
  for (const Named& base : kBases) words.push_back({base.name, base.about});
  words.insert(words.end(), kAgedAbout.begin(), kAgedAbout.end());
  for (const PolicySuffix& ending : kEndings) words.push_back({ending.suffix, ending.about});
  return words;
}

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
