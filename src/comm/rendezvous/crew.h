// Crew: the members of a run that are alive, as all of them agree, again after every death.
//
// Problem. After a death some members know it and some do not yet, others may die while they talk,
// and whoever leads may die too. Yet all must go on with one list of who is there.
//
// Method. Keys of a rendezvous are set once. Generation g has one key for each member of the one
// before, "crew/g/m": set by the member itself, to what it has to say, or by its will when its
// connection ends. Whichever came first is what everybody reads, for ever. So all who read all keys
// have the same list; nobody leads, and a death at any moment changes nothing that was read.
//
//   member 0   set crew/1/0 = "+step 7"                    reads "+step 7", gone, "+step 7"
//   member 1   dies; the server sets crew/1/1 = "-"
//   member 2   set crew/1/2 = "+step 7"                    reads "+step 7", gone, "+step 7"
//
// The will of the next generation is left before a member speaks in this one: at no moment can it
// die without leaving a word in every generation that others wait for.
//
// Members that meet elsewhere, to make groups, listen to the keys of the next generation meanwhile:
// there stands who has died since, and who has given up and waits for the others there.
//
// A process that stands in for a dead member takes its place in the first generation that misses
// it, by the key "fill/g/m". The key "joined/m" tells it whether the dead one had joined at all: if
// not, no generation misses it yet, and the new process joins in its stead.
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

namespace lockstep {

// For one thread.
class Crew {
 public:
  // As one of `members` that start together; each joins before it meets any other. The connection
  // is kept: it is what tells a death.
  static Result<Crew> join(std::unique_ptr<RendezvousClient> place, int member, int members);

  // What each member of the crew says, by member; nothing of those that are gone.
  using Roll = std::map<int, std::optional<std::string>>;

  // A process that stands in for a member that has died, and what it has to say. Returns when it is
  // one of the crew; with_replacements() of the others gets its words.
  struct Entered;
  static Result<Entered> enter(std::unique_ptr<RendezvousClient> place, int member, int members,
                               std::string_view words, Deadline deadline);
  // The same once more, for a member that entered so and that the others count as gone again.
  Result<Roll> enter_again(std::string_view words, Deadline deadline);

  // Says that a member has died, for a member that may not have joined and so left no will. Changes
  // nothing for one that did.
  static Result<void> tell_death(Rendezvous& place, int member);

  // Meets the others, who call it too, and says `words`. Afterwards those who spoke are the crew.
  // Before a member calls it, it writes to no other's memory any more. timeout: a member neither
  // spoke nor died; denied: this one counts as gone.
  Result<Roll> meet(std::string_view words, Deadline deadline);
  // After meet(): waits for someone in place of each who is gone; then all are the crew again.
  // timeout: nobody came, on all members alike.
  Result<Roll> with_replacements(Roll roll, Deadline deadline);

  // From now on check() looks for any of these members, until the crew meets again.
  Result<void> watch(const std::vector<int>& members);
  // peer_lost: one of them has died, or has gone on to the next meeting; then a group of all of
  // them will not come about. Does not wait; fd() is readable when there may be more to know.
  Result<void> check();
  // Of which member the last error tells, if it tells of one.
  std::optional<int> lost() const { return lost_; }

  int member() const { return member_; }
  // How often the crew has met.
  int generation() const { return generation_; }
  // Of the connection that tells deaths: a forked child must close it.
  int fd() const { return place_->fd(); }

 private:
  Crew(std::unique_ptr<RendezvousClient> place, int member, std::vector<int> members)
      : place_(std::move(place)), member_(member), members_(std::move(members)) {}
  Result<std::optional<std::string>> word_of(int generation, int member, Deadline deadline);
  Result<void> leave_will(int generation);
  Result<bool> claim();
  Result<void> take_place(std::string_view words, Deadline deadline);

  std::unique_ptr<RendezvousClient> place_;
  int member_;
  std::vector<int> members_;  // of the crew, ascending
  int generation_ = 0;
  std::map<std::string, int> watched_;  // members, by the key that tells
  std::optional<int> lost_;             // of those that died or are late, the last that was met
};

struct Crew::Entered {
  Crew crew;
  // As the others have it. Nothing: the dead member had not joined, and this process has, as one
  // of those that start together.
  std::optional<Roll> roll;
};

}  // namespace lockstep
