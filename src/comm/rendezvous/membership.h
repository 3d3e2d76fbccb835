// Membership: the members of a run that are alive. All of them agree on it, again after every
// death.
//
// Problem. After a death some members know it and some do not yet. Others may die during the
// agreement, and a leader may die too. Yet all must continue with the same list of members.
//
// Method. Keys of a rendezvous are set once. Generation g has one key for each member of the
// previous one, "crew/g/m". The member itself sets it to its message, or the server sets it as a
// tombstone when the member's connection ends. All members read the value that was set first,
// permanently. So all that read all keys have the same list. There is no leader, and a death at any
// moment changes no value that was read.
//
//   member 0   set crew/1/0 = "+step 7"                    reads "+step 7", gone, "+step 7"
//   member 1   dies; the server sets crew/1/1 = "-"
//   member 2   set crew/1/2 = "+step 7"                    reads "+step 7", gone, "+step 7"
//
// A member registers the tombstone of the next generation before it sets its key in this one. So if
// it dies at any moment, it leaves a value in every generation that others wait for.
//
// Members that connect elsewhere, to make groups, meanwhile watch the keys of the next generation.
// These show the members that have died since, and those that have given up and wait for the others
// there.
//
// A replacement of a dead member claims the first generation that lacks that member, by the key
// "fill/g/m". The key "joined/m" shows whether the dead one had joined at all. If not, no
// generation lacks it yet, and the new process joins as that member.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "comm/rendezvous/client.h"

namespace lockstep::comm {

// For one thread.
class Membership {
 public:
  // Joins as one of `members` that start together; each joins before it connects to any other. The
  // connection is kept, because its end signals the death of the member.
  static Result<Membership> join(std::unique_ptr<RendezvousClient> rendezvous, int member,
                                 int members);

  // The message of each member; nullopt for members that are gone.
  using MemberList = std::map<int, std::optional<std::string>>;

  // For a process that replaces a dead member: its message. Returns when it is a member; the
  // others' wait_for_replacements() returns its message.
  struct JoinedReplacement;
  static Result<JoinedReplacement> join_as_replacement(std::unique_ptr<RendezvousClient> rendezvous,
                                                       int member, int members,
                                                       std::string_view message, Deadline deadline);
  // The same again, for a replacement that the others count as gone again.
  Result<MemberList> rejoin_as_replacement(std::string_view message, Deadline deadline);

  // Reports the death of a member that may not have joined and so has no tombstone. It changes
  // nothing for a member that has joined.
  static Result<void> report_death(Rendezvous& rendezvous, int member);

  // Agrees with the others, which call it too, on the members, and sends `message`. Afterwards the
  // members are those that sent a message. Before a member calls it, it stops writing to the memory
  // of others. timeout: a member neither sent a message nor died; denied: this one counts as gone.
  Result<MemberList> agree_on_members(std::string_view message, Deadline deadline);
  // After agree_on_members(): waits for a replacement of each member that is gone; then the
  // membership is complete again. timeout: no replacement arrived, with the same result on all
  // members.
  Result<MemberList> wait_for_replacements(MemberList members, Deadline deadline);

  // From now on check() watches these members, until the next agree_on_members().
  Result<void> watch(const std::vector<int>& members);
  // peer_lost: one of them has died, or has begun the next agreement; then a group of all of them
  // is impossible. Does not wait; fd() is readable when there may be news.
  Result<void> check();
  // The member that the last error is about, if any.
  std::optional<int> lost_member() const { return lost_member_; }

  int member() const { return member_; }
  // The number of agreements so far.
  int generation() const { return generation_; }
  // The descriptor of the connection that signals deaths: a forked child must close it.
  int fd() const { return rendezvous_->fd(); }

 private:
  Membership(std::unique_ptr<RendezvousClient> rendezvous, int member, std::vector<int> members)
      : rendezvous_(std::move(rendezvous)), member_(member), members_(std::move(members)) {}
  Result<std::optional<std::string>> message_of(int generation, int member, Deadline deadline);
  Result<void> set_tombstone(int generation);
  Result<bool> try_initial_join();
  Result<void> claim_vacancy(std::string_view message, Deadline deadline);

  std::unique_ptr<RendezvousClient> rendezvous_;
  int member_;
  std::vector<int> members_;  // ascending
  int generation_ = 0;
  std::map<std::string, int> watched_;  // members, by the key that signals their loss
  std::optional<int> lost_member_;      // the last one found dead or late
};

struct Membership::JoinedReplacement {
  Membership membership;
  // As the others have it. Nullopt: the dead member had not joined, and this process has joined as
  // an initial member.
  std::optional<MemberList> members;
};

}  // namespace lockstep::comm
