#include "comm/rendezvous/membership.h"

#include <functional>
#include <thread>

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>

#include "base/format.h"
#include "base/random.h"
#include "comm/rendezvous/server.h"
#include "net/socket.h"

namespace lockstep::comm {
namespace {

Deadline in_time() { return Deadline::after(std::chrono::seconds(10)); }
Deadline too_early() { return Deadline::after(std::chrono::milliseconds(50)); }

class RendezvousForTest {
 public:
  std::unique_ptr<RendezvousClient> client() const {
    return RendezvousClient::connect("127.0.0.1", server_->port(), secret_, in_time()).value();
  }
  // Members that have joined; the connection of each ends with it.
  std::vector<std::optional<Membership>> join_all(int members) const {
    std::vector<std::optional<Membership>> all;
    for (int member = 0; member < members; ++member)
      all.emplace_back(Membership::join(client(), member, members).value());
    return all;
  }

 private:
  net::Secret secret_ = net::Secret::random();
  std::unique_ptr<RendezvousServer> server_ =
      RendezvousServer::start("127.0.0.1", 0, secret_).value();
};

void each(std::vector<std::optional<Membership>>& crew,
          const std::function<void(Membership&)>& act) {
  std::vector<std::thread> threads;
  for (auto& member : crew)
    if (member) threads.emplace_back([&] { act(*member); });
  for (auto& thread : threads) thread.join();
}

// "0:a 2:c": the members that are present.
std::string text(const Membership::MemberList& roll) {
  std::string words;
  for (const auto& [member, said] : roll)
    if (said) words += format("{}{}:{}", words.empty() ? "" : " ", member, *said);
  return words;
}

TEST(Rendezvous, AWillIsExecutedWhenTheConnectionEndsUnlessTheKeyIsSet) {
  RendezvousForTest hall;
  auto heir = hall.client();
  auto dying = hall.client();
  ASSERT_TRUE(dying->set_tombstone("a", "gone"));
  ASSERT_TRUE(dying->set_tombstone("b", "gone"));
  ASSERT_TRUE(dying->set("a", "said"));
  EXPECT_EQ(heir->get("b", too_early()).error().code, Code::timeout);
  dying.reset();
  EXPECT_EQ(heir->get("b", in_time()).value(), "gone");
  EXPECT_EQ(heir->get("a", in_time()).value(), "said");
}

std::string next_news(RendezvousClient& listener) {
  for (;;) {
    const auto news = listener.next_watched_key().value();
    if (news) return *news;
    if (!net::wait_ready(listener.fd(), POLLIN, in_time(), "news")) return "none";
  }
}

TEST(Rendezvous, WhoListensIsToldTheKeysThatAreThereAndThoseThatComeBesidesItsAnswers) {
  RendezvousForTest hall;
  auto speaker = hall.client();
  auto listener = hall.client();
  ASSERT_TRUE(speaker->set("a/1", "x"));
  ASSERT_TRUE(listener->watch_prefix("a/"));
  ASSERT_TRUE(speaker->set_tombstone("a/3", "z"));
  ASSERT_TRUE(speaker->set("b/2", "y"));
  ASSERT_TRUE(speaker->set("a/2", "y"));
  EXPECT_EQ(listener->get("a/2", in_time()).value(), "y");  // the notification has arrived before
  EXPECT_EQ(next_news(*listener), "a/1");
  EXPECT_EQ(next_news(*listener), "a/2");
  EXPECT_EQ(listener->next_watched_key().value(), std::nullopt);
  speaker.reset();
  EXPECT_EQ(listener->get("a/3", in_time()).value(), "z");
  EXPECT_EQ(next_news(*listener), "a/3");
}

TEST(Rendezvous, WillsAreBounded) {
  RendezvousForTest hall;
  auto client = hall.client();
  Result<void> last;
  for (int i = 0; i < 17; ++i) last = client->set_tombstone(format("key {}", i), "gone");
  ASSERT_FALSE(last);
  EXPECT_EQ(last.error().code, Code::exhausted);
}

TEST(Membership, TheLivingReadWhatEachSaysAndWhoIsGone) {
  RendezvousForTest hall;
  auto crew = hall.join_all(4);
  crew[1].reset();
  each(crew, [](Membership& self) {
    const auto roll = self.agree_on_members(format("m{}", self.member()), in_time());
    ASSERT_TRUE(roll) << roll.error().message;
    EXPECT_EQ(text(*roll), "0:m0 2:m2 3:m3");
    EXPECT_EQ(self.generation(), 1);
  });
  crew[0].reset();
  each(crew, [](Membership& self) {
    const auto roll = self.agree_on_members("again", in_time());
    ASSERT_TRUE(roll) << roll.error().message;
    EXPECT_EQ(text(*roll), "2:again 3:again");
    EXPECT_EQ(self.generation(), 2);
  });
}

// Members die at various moments of the agreement: all others read the same list.
TEST(Membership, AllReadTheSameThoughMembersDieMeanwhile) {
  Random random(7);
  for (int round = 0; round < 20; ++round) {
    RendezvousForTest hall;
    auto crew = hall.join_all(6);
    std::vector<std::string> read(6);
    std::vector<std::thread> threads;
    for (std::size_t member = 0; member < 6; ++member)
      threads.emplace_back([&, member] {
        const auto roll = crew[member]->agree_on_members("here", in_time());
        read[member] = roll ? text(*roll) : roll.error().message;
      });
    for (const std::size_t victim : {1u, 4u}) {
      const auto moment = Deadline::after(Duration(random.below(1000)));
      while (!moment.passed()) std::this_thread::yield();
      ::shutdown(crew[victim]->fd(), SHUT_RDWR);
    }
    for (auto& thread : threads) thread.join();
    for (const std::size_t member : {2u, 3u, 5u})
      EXPECT_EQ(read[member], read[0]) << "member " << member;
    EXPECT_NE(read[0].find("0:here"), std::string::npos) << read[0];
    EXPECT_NE(read[0].find("2:here 3:here"), std::string::npos) << read[0];
  }
}

// Waits for a notification.
Error loss(Membership& self) {
  for (;;) {
    if (auto checked = self.check(); !checked) return checked.error();
    if (auto ready = net::wait_ready(self.fd(), POLLIN, in_time(), "news"); !ready)
      return ready.error();
  }
}

TEST(Membership, WhoWatchesLearnsThatOneHasDiedOrGoneOnButNotOfThoseItDoesNotWatch) {
  RendezvousForTest hall;
  auto crew = hall.join_all(4);
  auto& self = *crew[0];
  ASSERT_TRUE(self.watch({0, 2}));
  EXPECT_TRUE(self.check());
  crew[1].reset();
  EXPECT_TRUE(hall.client()->get("crew/1/1", in_time()));
  EXPECT_TRUE(self.check());
  crew[2].reset();
  const auto died = loss(self);
  EXPECT_EQ(died.code, Code::peer_lost);
  EXPECT_NE(died.message.find("member 2 was lost"), std::string::npos) << died.message;
  EXPECT_EQ(self.check().error().code, Code::peer_lost);  // also later

  std::thread other([&] { EXPECT_TRUE(crew[3]->agree_on_members("here", in_time())); });
  ASSERT_TRUE(self.agree_on_members("here", in_time()));
  other.join();
  ASSERT_TRUE(self.watch({0, 3}));
  EXPECT_TRUE(self.check());
  std::thread gone_on([&] { (void)crew[3]->agree_on_members("again", in_time()); });
  EXPECT_NE(loss(self).message.find("member 3"), std::string::npos);
  EXPECT_TRUE(self.agree_on_members("again", in_time()));
  gone_on.join();
}

TEST(Membership, WhoNeitherComesNorDiesIsNamed) {
  RendezvousForTest hall;
  auto crew = hall.join_all(2);
  const auto roll = crew[0]->agree_on_members("here", too_early());
  ASSERT_FALSE(roll);
  EXPECT_EQ(roll.error().code, Code::timeout);
  EXPECT_NE(roll.error().message.find("member 1 neither came"), std::string::npos);
}

TEST(Membership, AReplacementEntersWhereItIsMissedAndDiesLikeAnyMember) {
  RendezvousForTest hall;
  auto crew = hall.join_all(3);
  for (int death = 1; death <= 2; ++death) {
    crew[1].reset();
    std::thread newcomer([&] {
      auto entered = Membership::join_as_replacement(hall.client(), 1, 3, "new", in_time());
      ASSERT_TRUE(entered) << entered.error().message;
      EXPECT_EQ(text(entered->members.value()), "0:old 1:new 2:old");
      crew[1].emplace(std::move(entered->membership));
    });
    std::vector<std::thread> others;
    for (const std::size_t i : {0u, 2u})
      others.emplace_back([&, i] {
        const auto met = crew[i]->agree_on_members("old", in_time());
        ASSERT_TRUE(met) << met.error().message;
        EXPECT_EQ(text(*met), "0:old 2:old");
        const auto whole = crew[i]->wait_for_replacements(*met, in_time());
        ASSERT_TRUE(whole) << whole.error().message;
        EXPECT_EQ(text(*whole), "0:old 1:new 2:old");
      });
    newcomer.join();
    for (auto& other : others) other.join();
  }
  EXPECT_EQ(crew[1]->generation(), 2);
}

// No generation lacks it: it had set no tombstone.
TEST(Membership, AReplacementOfAMemberThatNeverJoinedJoinsAsTheOthersDo) {
  RendezvousForTest hall;
  std::vector<std::optional<Membership>> crew;
  crew.emplace_back(Membership::join(hall.client(), 0, 2).value());
  auto entered = Membership::join_as_replacement(hall.client(), 1, 2, "new", in_time());
  ASSERT_TRUE(entered) << entered.error().message;
  EXPECT_EQ(entered->members, std::nullopt);
  crew.emplace_back(std::move(entered->membership));
  each(crew, [](Membership& self) {
    const auto roll = self.agree_on_members("here", in_time());
    ASSERT_TRUE(roll) << roll.error().message;
    EXPECT_EQ(text(*roll), "0:here 1:here");
  });
}

// The first replacement dies after it has set its tombstone and before it sends its message: so the
// next generation lacks the second one, too.
TEST(Membership, AReplacementThatTheOthersCountAsGoneEntersOnceMore) {
  RendezvousForTest hall;
  auto crew = hall.join_all(2);
  crew[1].reset();
  auto half_way_in = hall.client();
  ASSERT_TRUE(half_way_in->set_tombstone("crew/2/1", "-"));
  half_way_in.reset();
  ASSERT_TRUE(hall.client()->get("crew/2/1", in_time()));
  std::thread newcomer([&] {
    auto entered = Membership::join_as_replacement(hall.client(), 1, 2, "new", in_time());
    ASSERT_TRUE(entered) << entered.error().message;
    EXPECT_EQ(entered->membership.agree_on_members("new", in_time()).error().code, Code::denied);
    const auto roll = entered->membership.rejoin_as_replacement("new again", in_time());
    ASSERT_TRUE(roll) << roll.error().message;
    EXPECT_EQ(text(*roll), "0:still here 1:new again");
    crew[1].emplace(std::move(entered->membership));
  });
  for (const auto& [words, whole] :
       {std::pair{"here", "0:here 1:new"}, std::pair{"still here", "0:still here 1:new again"}}) {
    const auto met = crew[0]->agree_on_members(words, in_time());
    ASSERT_TRUE(met) << met.error().message;
    const auto roll = crew[0]->wait_for_replacements(*met, in_time());
    ASSERT_TRUE(roll) << roll.error().message;
    EXPECT_EQ(text(*roll), whole);
  }
  newcomer.join();
  EXPECT_EQ(crew[1]->generation(), 2);
}

TEST(Membership, ADeathIsToldForAMemberThatNeverJoinedAndChangesNothingForOneThatSpoke) {
  RendezvousForTest hall;
  auto first = Membership::join(hall.client(), 0, 2).value();
  ASSERT_TRUE(first.watch({0, 1}));
  const auto place = hall.client();
  ASSERT_TRUE(Membership::report_death(*place, 1));
  EXPECT_EQ(loss(first).code, Code::peer_lost);
  EXPECT_EQ(first.lost_member(), 1);

  RendezvousForTest other_hall;
  auto crew = other_hall.join_all(2);
  each(crew, [](Membership& self) { ASSERT_TRUE(self.agree_on_members("here", in_time())); });
  ASSERT_TRUE(Membership::report_death(*other_hall.client(), 1));
  each(crew, [](Membership& self) {
    const auto roll = self.agree_on_members("again", in_time());
    ASSERT_TRUE(roll) << roll.error().message;
    EXPECT_EQ(text(*roll), "0:again 1:again");
  });
}

TEST(Membership, WhereNoReplacementComesAllSaySo) {
  RendezvousForTest hall;
  auto crew = hall.join_all(3);
  crew[2].reset();
  each(crew, [](Membership& self) {
    const auto roll = self.agree_on_members("here", in_time());
    ASSERT_TRUE(roll) << roll.error().message;
    const auto whole = self.wait_for_replacements(*roll, too_early());
    ASSERT_FALSE(whole);
    EXPECT_NE(whole.error().message.find("no replacement of member 2"), std::string::npos);
  });
}

}  // namespace
}  // namespace lockstep::comm
