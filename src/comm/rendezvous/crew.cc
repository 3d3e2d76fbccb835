#include "comm/rendezvous/crew.h"

#include <numeric>
#include <utility>

#include "base/format.h"
#include "net/crypto.h"

namespace lockstep {
namespace {

// A value is a sign and words.
constexpr std::string_view kGone = "-";

std::string spoken(std::string_view words) { return format("+{}", words); }

std::string crew_key(int generation, int member) {
  return format("crew/{}/{}", generation, member);
}

std::string fill_key(int generation, int member) {
  return format("fill/{}/{}", generation, member);
}

std::optional<std::string> words_in(const std::string& value) {
  if (value == kGone) return std::nullopt;
  return value.substr(1);
}

// Who comes in place of another. Setting a key again to its value is no error, and the next that
// comes in the same place may say the same: so each says something of its own before its words.
constexpr std::size_t kOwnDigits = 16;

std::string spoken_by_newcomer(std::string_view words) {
  return spoken(Secret::random().hex().substr(0, kOwnDigits) + std::string(words));
}

std::optional<std::string> newcomers_words_in(const std::string& value) {
  auto words = words_in(value);
  if (words) words->erase(0, kOwnDigits);
  return words;
}

std::vector<int> numbers(int count) {
  std::vector<int> all(static_cast<std::size_t>(count));
  std::iota(all.begin(), all.end(), 0);
  return all;
}

Error nobody_came(int member, Deadline deadline, const Error& cause) {
  if (cause.code != Code::timeout || !deadline.passed()) return cause;
  return Error{Code::timeout,
               format("member {} neither came to meet the others nor died: is it stopped, or busy "
                      "for longer than the others are patient?",
                      member)};
}

}  // namespace

Result<Crew> Crew::join(std::unique_ptr<RendezvousClient> place, int member, int members) {
  Crew crew(std::move(place), member, numbers(members));
  TRY(crew.leave_will(1));
  return crew;
}

Result<void> Crew::leave_will(int generation) {
  return place_->leave_behind(crew_key(generation, member_), kGone);
}

Result<std::optional<std::string>> Crew::word_of(int generation, int member, Deadline deadline) {
  auto value = place_->get(crew_key(generation, member), deadline);
  if (!value) return nobody_came(member, deadline, value.error());
  return words_in(*value);
}

Result<Crew::Roll> Crew::meet(std::string_view words, Deadline deadline) {
  const int next = generation_ + 1;
  TRY(leave_will(next + 1));
  auto said = place_->set(crew_key(next, member_), spoken(words));
  if (!said && said.error().code == Code::already_exists)
    return Error{Code::denied, format("the others count member {} as gone and went on without it: "
                                      "was its connection to the meeting place cut?",
                                      member_)};
  TRY(std::move(said));
  Roll roll;
  for (int member : members_) roll[member] = TRY(word_of(next, member, deadline));
  generation_ = next;
  std::erase_if(members_, [&](int member) { return !roll[member]; });
  return roll;
}

Result<Crew::Roll> Crew::with_replacements(Roll roll, Deadline deadline) {
  for (auto& [member, words] : roll) {
    if (words) continue;
    const auto key = fill_key(generation_, member);
    auto value = place_->get(key, deadline);
    // Who gives up says so where the newcomer would speak: then it is the same for everybody.
    if (!value && value.error().code == Code::timeout) {
      (void)place_->set(key, kGone);
      value = place_->get(key, Deadline::after(std::chrono::seconds(10)));
    }
    words = newcomers_words_in(TRY(std::move(value)));
    if (!words)
      return Error{Code::timeout, format("nobody came in place of member {} in time", member)};
  }
  members_.clear();
  for (const auto& [member, words] : roll) members_.push_back(member);
  return roll;
}

Result<void> Crew::watch(const std::vector<int>& members) {
  watched_.clear();
  lost_.reset();
  for (const int member : members) watched_.emplace(crew_key(generation_ + 1, member), member);
  return place_->listen_to(format("crew/{}/", generation_ + 1));
}

Result<void> Crew::check() {
  while (!lost_) {
    const auto key = TRY(place_->next_news());
    if (!key) return {};
    if (const auto found = watched_.find(*key); found != watched_.end()) lost_ = found->second;
  }
  return Error{Code::peer_lost,
               format("member {} has died, or given up, while the others met", *lost_)};
}

Result<Crew::Entered> Crew::enter(std::unique_ptr<RendezvousClient> place, int member, int members,
                                  std::string_view words, Deadline deadline) {
  Entered entered{Crew(std::move(place), member, numbers(members)), {}};
  auto& crew = entered.crew;
  // The first generation in which the member is missed and that nobody else has entered for it.
  for (int generation = 1;; ++generation) {
    if (TRY(crew.word_of(generation, member, deadline))) continue;
    TRY(crew.leave_will(generation + 1));
    const auto came = crew.place_->set(fill_key(generation, member), spoken_by_newcomer(words));
    if (!came && came.error().code == Code::already_exists) continue;
    TRY(came);
    crew.generation_ = generation;
    break;
  }
  for (int other : numbers(members))
    entered.roll[other] = TRY(crew.word_of(crew.generation_, other, deadline));
  entered.roll = TRY(crew.with_replacements(std::move(entered.roll), deadline));
  return entered;
}

}  // namespace lockstep
