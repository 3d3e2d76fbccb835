#include "comm/rendezvous/membership.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "base/format.h"
#include "net/crypto.h"

namespace lockstep::comm {
namespace {

// A value is a sign and a text.
constexpr std::string_view kTombstone = "-";

std::string encode_message(std::string_view message) { return format("+{}", message); }

std::string member_key(int generation, int member) {
  return format("crew/{}/{}", generation, member);
}

std::string replacement_key(int generation, int member) {
  return format("fill/{}/{}", generation, member);
}

std::string joined_key(int member) { return format("joined/{}", member); }

std::optional<std::string> decode_message(const std::string& value) {
  if (value == kTombstone) return std::nullopt;
  return value.substr(1);
}

// The message of a replacement. Setting a key again to the same value is no error, and a second
// replacement might send the same text. So each adds a nonce before its text.
constexpr std::size_t kNonceDigits = 16;

std::string encode_replacement_message(std::string_view message) {
  return encode_message(net::Secret::random().hex().substr(0, kNonceDigits) + std::string(message));
}

std::optional<std::string> decode_replacement_message(const std::string& value) {
  auto message = decode_message(value);
  if (message) message->erase(0, kNonceDigits);
  return message;
}

std::vector<int> numbers(int count) {
  std::vector<int> all(static_cast<std::size_t>(count));
  std::iota(all.begin(), all.end(), 0);
  return all;
}

Error missing_member_error(int member, Deadline deadline, const Error& cause) {
  if (cause.code != Code::timeout || !deadline.passed()) return cause;
  return Error{Code::timeout,
               format("member {} neither came to meet the others nor died: is it stopped, or busy "
                      "for longer than the others are patient?",
                      member)};
}

}  // namespace

Result<Membership> Membership::join(std::unique_ptr<RendezvousClient> rendezvous, int member,
                                    int members) {
  Membership membership(std::move(rendezvous), member, numbers(members));
  TRY(membership.try_initial_join());
  return membership;
}

// Joins as an initial member; false if another process has joined with this number before. The
// tombstone is set first: a death between the two then leaves a generation without the member.
Result<bool> Membership::try_initial_join() {
  TRY(set_tombstone(1));
  const auto joined = rendezvous_->set(joined_key(member_), net::Secret::random().hex());
  if (!joined && joined.error().code == Code::already_exists) return false;
  TRY(joined);
  return true;
}

Result<void> Membership::report_death(Rendezvous& rendezvous, int member) {
  const auto reported = rendezvous.set(member_key(1, member), kTombstone);
  if (reported || reported.error().code == Code::already_exists) return {};
  return reported;
}

Result<void> Membership::set_tombstone(int generation) {
  return rendezvous_->set_tombstone(member_key(generation, member_), kTombstone);
}

Result<std::optional<std::string>> Membership::message_of(int generation, int member,
                                                          Deadline deadline) {
  auto value = rendezvous_->get(member_key(generation, member), deadline);
  if (!value) {
    lost_member_ = member;
    return missing_member_error(member, deadline, value.error());
  }
  return decode_message(*value);
}

Result<Membership::MemberList> Membership::agree_on_members(std::string_view message,
                                                            Deadline deadline) {
  const int next = generation_ + 1;
  TRY(set_tombstone(next + 1));
  auto sent = rendezvous_->set(member_key(next, member_), encode_message(message));
  if (!sent && sent.error().code == Code::already_exists)
    return Error{Code::denied,
                 format("the others count member {} as lost and continued without it: "
                        "was its connection to the rendezvous cut?",
                        member_)};
  TRY(std::move(sent));
  MemberList members;
  for (int member : members_) members[member] = TRY(message_of(next, member, deadline));
  generation_ = next;
  std::erase_if(members_, [&](int member) { return !members[member]; });
  return members;
}

Result<Membership::MemberList> Membership::wait_for_replacements(MemberList members,
                                                                 Deadline deadline) {
  for (auto& [member, message] : members) {
    if (message) continue;
    lost_member_ = member;
    const auto key = replacement_key(generation_, member);
    auto value = rendezvous_->get(key, deadline);
    // A member that gives up sets the key of the replacement: then the result is the same for all
    // members.
    if (!value && value.error().code == Code::timeout) {
      (void)rendezvous_->set(key, kTombstone);
      value = rendezvous_->get(key, Deadline::after(std::chrono::seconds(10)));
    }
    message = decode_replacement_message(TRY(std::move(value)));
    if (!message)
      return Error{Code::timeout, format("no replacement of member {} came in time", member)};
  }
  members_.clear();
  for (const auto& [member, message] : members) members_.push_back(member);
  return members;
}

Result<void> Membership::watch(const std::vector<int>& members) {
  watched_.clear();
  lost_member_.reset();
  for (const int member : members) watched_.emplace(member_key(generation_ + 1, member), member);
  return rendezvous_->watch_prefix(format("crew/{}/", generation_ + 1));
}

Result<void> Membership::check() {
  while (!lost_member_) {
    const auto key = TRY(rendezvous_->next_watched_key());
    if (!key) return {};
    if (const auto found = watched_.find(*key); found != watched_.end())
      lost_member_ = found->second;
  }
  return Error{Code::peer_lost,
               format("member {} was lost, or has given up, while the others met", *lost_member_)};
}

Result<Membership::JoinedReplacement> Membership::join_as_replacement(
    std::unique_ptr<RendezvousClient> rendezvous, int member, int members, std::string_view message,
    Deadline deadline) {
  JoinedReplacement entered{Membership(std::move(rendezvous), member, numbers(members)), {}};
  if (!TRY(entered.membership.try_initial_join()))
    entered.members = TRY(entered.membership.rejoin_as_replacement(message, deadline));
  return entered;
}

Result<Membership::MemberList> Membership::rejoin_as_replacement(std::string_view message,
                                                                 Deadline deadline) {
  TRY(claim_vacancy(message, deadline));
  MemberList members;
  for (int other : members_) members[other] = TRY(message_of(generation_, other, deadline));
  if (std::none_of(members.begin(), members.end(), [](const auto& entry) { return entry.second; }))
    return Error{Code::not_found, "no rank is left that holds anything of the training"};
  return wait_for_replacements(std::move(members), deadline);
}

// Joins in the first generation, from the next one on, that lacks the member and that no other
// process has claimed for it.
Result<void> Membership::claim_vacancy(std::string_view message, Deadline deadline) {
  for (int generation = generation_ + 1;; ++generation) {
    if (TRY(message_of(generation, member_, deadline))) continue;
    TRY(set_tombstone(generation + 1));
    const auto claimed =
        rendezvous_->set(replacement_key(generation, member_), encode_replacement_message(message));
    if (!claimed && claimed.error().code == Code::already_exists) continue;
    TRY(claimed);
    generation_ = generation;
    return {};
  }
}

}  // namespace lockstep::comm
