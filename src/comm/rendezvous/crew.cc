#include "comm/rendezvous/crew.h"

#include <algorithm>
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

std::string joined_key(int member) { return format("joined/{}", member); }

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
  TRY(crew.claim());
  return crew;
}

// As a member that joins; false if one has joined in this place before. The will comes first: a
// death between the two then leaves a generation that misses the member.
Result<bool> Crew::claim() {
  TRY(leave_will(1));
  const auto came = place_->set(joined_key(member_), Secret::random().hex());
  if (!came && came.error().code == Code::already_exists) return false;
  TRY(came);
  return true;
}

Result<void> Crew::tell_death(Rendezvous& place, int member) {
  const auto told = place.set(crew_key(1, member), kGone);
  if (told || told.error().code == Code::already_exists) return {};
  return told;
}

Result<void> Crew::leave_will(int generation) {
  return place_->leave_behind(crew_key(generation, member_), kGone);
}

Result<std::optional<std::string>> Crew::word_of(int generation, int member, Deadline deadline) {
  auto value = place_->get(crew_key(generation, member), deadline);
  if (!value) {
    lost_ = member;
    return nobody_came(member, deadline, value.error());
  }
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
    lost_ = member;
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
               format("member {} was lost, or has given up, while the others met", *lost_)};
}

Result<Crew::Entered> Crew::enter(std::unique_ptr<RendezvousClient> place, int member, int members,
                                  std::string_view words, Deadline deadline) {
  Entered entered{Crew(std::move(place), member, numbers(members)), {}};
  if (!TRY(entered.crew.claim())) entered.roll = TRY(entered.crew.enter_again(words, deadline));
  return entered;
}

Result<Crew::Roll> Crew::enter_again(std::string_view words, Deadline deadline) {
  TRY(take_place(words, deadline));
  Roll roll;
  for (int other : members_) roll[other] = TRY(word_of(generation_, other, deadline));
  if (std::none_of(roll.begin(), roll.end(), [](const auto& said) { return said.second; }))
    return Error{Code::not_found, "no rank is left that holds anything of the training"};
  return with_replacements(std::move(roll), deadline);
}

// In the first generation from the next on that misses the member and that no other process has
// entered for it.
Result<void> Crew::take_place(std::string_view words, Deadline deadline) {
  for (int generation = generation_ + 1;; ++generation) {
    if (TRY(word_of(generation, member_, deadline))) continue;
    TRY(leave_will(generation + 1));
    const auto came = place_->set(fill_key(generation, member_), spoken_by_newcomer(words));
    if (!came && came.error().code == Code::already_exists) continue;
    TRY(came);
    generation_ = generation;
    return {};
  }
}

}  // namespace lockstep
