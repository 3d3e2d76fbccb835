#include "train/recovery/story.h"

#include <cstddef>
#include <numeric>
#include <vector>

#include "base/format.h"

namespace lockstep {
namespace {

constexpr std::size_t kNamed = 8;  // of more only their number is told

std::string ranks_in_words(const std::vector<int>& ranks) {
  if (ranks.size() == 1) return format("rank {}", ranks.front());
  if (ranks.size() > kNamed) return format("{} ranks", ranks.size());
  const std::vector<int> first(ranks.begin(), ranks.end() - 1);
  return format("ranks {} and {}", joined(first, ", "), ranks.back());
}

bool keep_their_numbers(const std::vector<int>& seats) {
  for (std::size_t seat = 0; seat < seats.size(); ++seat)
    if (seats[seat] != static_cast<int>(seat)) return false;
  return true;
}

// "; ranks 2 and 3 go on as ranks 0 and 1"
std::string who_goes_on(const RecoveryPlan& plan) {
  const auto& seats = plan.seats;
  auto words = format("; {} {} on", ranks_in_words(seats), seats.size() == 1 ? "goes" : "go");
  if (keep_their_numbers(seats) || seats.size() > kNamed) return words;
  std::vector<int> numbers(seats.size());
  std::iota(numbers.begin(), numbers.end(), 0);
  return words + " as " + ranks_in_words(numbers);
}

// " (steps 13 to 15 are done again)"
std::string done_again(std::int64_t step, std::int64_t whole) {
  if (whole <= step) return "";
  if (whole == step + 1) return format(" (step {} is done again)", whole);
  return format(" (steps {} to {} are done again)", step + 1, whole);
}

}  // namespace

std::string story_of(const RecoveryPlan& plan, std::int64_t step, Duration took) {
  auto words =
      plan.newcomers.empty() && plan.gone.empty()
          ? std::string("the ranks lost connections to each other and connected again")
      : plan.newcomers.empty()
          ? format("{} {} lost", ranks_in_words(plan.gone), plan.gone.size() == 1 ? "was" : "were")
          : format("{} died and {} started again", ranks_in_words(plan.newcomers),
                   plan.newcomers.size() == 1 ? "was" : "were");
  if (!plan.leaving.empty())
    words += format("; {} {}, no replica needs {}", ranks_in_words(plan.leaving),
                    plan.leaving.size() == 1 ? "leaves" : "leave",
                    plan.leaving.size() == 1 ? "it" : "them");
  words += who_goes_on(plan);
  return words + format(" after step {} from {}{}, {} after they noticed", step,
                        plan.from_storage ? "a checkpoint" : "memory", done_again(step, plan.step),
                        text(took));
}

}  // namespace lockstep
