#include "comm/rendezvous/crew.h"

#include <functional>
#include <thread>

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>

#include "base/format.h"
#include "base/random.h"
#include "comm/rendezvous/server.h"
#include "net/socket.h"

namespace lockstep {
namespace {

Deadline in_time() { return Deadline::after(std::chrono::seconds(10)); }
Deadline too_early() { return Deadline::after(std::chrono::milliseconds(50)); }

class Hall {
 public:
  std::unique_ptr<RendezvousClient> client() const {
    return RendezvousClient::connect("127.0.0.1", server_->port(), secret_, in_time()).value();
  }
  // Members that have joined, whose connection ends with them.
  std::vector<std::optional<Crew>> crew(int members) const {
    std::vector<std::optional<Crew>> all;
    for (int member = 0; member < members; ++member)
      all.emplace_back(Crew::join(client(), member, members).value());
    return all;
  }

 private:
  Secret secret_ = Secret::random();
  std::unique_ptr<RendezvousServer> server_ =
      RendezvousServer::start("127.0.0.1", 0, secret_).value();
};

void each(std::vector<std::optional<Crew>>& crew, const std::function<void(Crew&)>& act) {
  std::vector<std::thread> threads;
  for (auto& member : crew)
    if (member) threads.emplace_back([&] { act(*member); });
  for (auto& thread : threads) thread.join();
}

// "0:a 2:c", of those who are there.
std::string text(const Crew::Roll& roll) {
  std::string words;
  for (const auto& [member, said] : roll)
    if (said) words += format("{}{}:{}", words.empty() ? "" : " ", member, *said);
  return words;
}

TEST(Rendezvous, AWillIsExecutedWhenTheConnectionEndsUnlessTheKeyIsSet) {
  Hall hall;
  auto heir = hall.client();
  auto dying = hall.client();
  ASSERT_TRUE(dying->leave_behind("a", "gone"));
  ASSERT_TRUE(dying->leave_behind("b", "gone"));
  ASSERT_TRUE(dying->set("a", "said"));
  EXPECT_EQ(heir->get("b", too_early()).error().code, Code::timeout);
  dying.reset();
  EXPECT_EQ(heir->get("b", in_time()).value(), "gone");
  EXPECT_EQ(heir->get("a", in_time()).value(), "said");
}

std::string next_news(RendezvousClient& listener) {
  for (;;) {
    const auto news = listener.next_news().value();
    if (news) return *news;
    if (!wait_ready(listener.fd(), POLLIN, in_time(), "news")) return "none";
  }
}

TEST(Rendezvous, WhoListensIsToldTheKeysThatAreThereAndThoseThatComeBesidesItsAnswers) {
  Hall hall;
  auto speaker = hall.client();
  auto listener = hall.client();
  ASSERT_TRUE(speaker->set("a/1", "x"));
  ASSERT_TRUE(listener->listen_to("a/"));
  ASSERT_TRUE(speaker->leave_behind("a/3", "z"));
  ASSERT_TRUE(speaker->set("b/2", "y"));
  ASSERT_TRUE(speaker->set("a/2", "y"));
  EXPECT_EQ(listener->get("a/2", in_time()).value(), "y");  // the news has come before
  EXPECT_EQ(next_news(*listener), "a/1");
  EXPECT_EQ(next_news(*listener), "a/2");
  EXPECT_EQ(listener->next_news().value(), std::nullopt);
  speaker.reset();
  EXPECT_EQ(listener->get("a/3", in_time()).value(), "z");
  EXPECT_EQ(next_news(*listener), "a/3");
}

TEST(Rendezvous, WillsAreBounded) {
  Hall hall;
  auto client = hall.client();
  Result<void> last;
  for (int i = 0; i < 17; ++i) last = client->leave_behind(format("key {}", i), "gone");
  ASSERT_FALSE(last);
  EXPECT_EQ(last.error().code, Code::exhausted);
}

TEST(Crew, TheLivingReadWhatEachSaysAndWhoIsGone) {
  Hall hall;
  auto crew = hall.crew(4);
  crew[1].reset();
  each(crew, [](Crew& self) {
    const auto roll = self.meet(format("m{}", self.member()), in_time());
    ASSERT_TRUE(roll) << roll.error().message;
    EXPECT_EQ(text(*roll), "0:m0 2:m2 3:m3");
    EXPECT_EQ(self.generation(), 1);
  });
  crew[0].reset();
  each(crew, [](Crew& self) {
    const auto roll = self.meet("again", in_time());
    ASSERT_TRUE(roll) << roll.error().message;
    EXPECT_EQ(text(*roll), "2:again 3:again");
    EXPECT_EQ(self.generation(), 2);
  });
}

// Whoever dies at whatever moment of the meeting: nobody reads another list than the others.
TEST(Crew, AllReadTheSameThoughMembersDieMeanwhile) {
  Random random(7);
  for (int round = 0; round < 20; ++round) {
    Hall hall;
    auto crew = hall.crew(6);
    std::vector<std::string> read(6);
    std::vector<std::thread> threads;
    for (std::size_t member = 0; member < 6; ++member)
      threads.emplace_back([&, member] {
        const auto roll = crew[member]->meet("here", in_time());
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

// Waits for news.
Error loss(Crew& self) {
  for (;;) {
    if (auto checked = self.check(); !checked) return checked.error();
    if (auto ready = wait_ready(self.fd(), POLLIN, in_time(), "news"); !ready) return ready.error();
  }
}

TEST(Crew, WhoWatchesLearnsThatOneHasDiedOrGoneOnButNotOfThoseItDoesNotWatch) {
  Hall hall;
  auto crew = hall.crew(4);
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

  std::thread other([&] { EXPECT_TRUE(crew[3]->meet("here", in_time())); });
  ASSERT_TRUE(self.meet("here", in_time()));
  other.join();
  ASSERT_TRUE(self.watch({0, 3}));
  EXPECT_TRUE(self.check());
  std::thread gone_on([&] { (void)crew[3]->meet("again", in_time()); });
  EXPECT_NE(loss(self).message.find("member 3"), std::string::npos);
  EXPECT_TRUE(self.meet("again", in_time()));
  gone_on.join();
}

TEST(Crew, WhoNeitherComesNorDiesIsNamed) {
  Hall hall;
  auto crew = hall.crew(2);
  const auto roll = crew[0]->meet("here", too_early());
  ASSERT_FALSE(roll);
  EXPECT_EQ(roll.error().code, Code::timeout);
  EXPECT_NE(roll.error().message.find("member 1 neither came"), std::string::npos);
}

TEST(Crew, AReplacementEntersWhereItIsMissedAndDiesLikeAnyMember) {
  Hall hall;
  auto crew = hall.crew(3);
  for (int death = 1; death <= 2; ++death) {
    crew[1].reset();
    std::thread newcomer([&] {
      auto entered = Crew::enter(hall.client(), 1, 3, "new", in_time());
      ASSERT_TRUE(entered) << entered.error().message;
      EXPECT_EQ(text(entered->roll.value()), "0:old 1:new 2:old");
      crew[1].emplace(std::move(entered->crew));
    });
    std::vector<std::thread> others;
    for (const std::size_t i : {0u, 2u})
      others.emplace_back([&, i] {
        const auto met = crew[i]->meet("old", in_time());
        ASSERT_TRUE(met) << met.error().message;
        EXPECT_EQ(text(*met), "0:old 2:old");
        const auto whole = crew[i]->with_replacements(*met, in_time());
        ASSERT_TRUE(whole) << whole.error().message;
        EXPECT_EQ(text(*whole), "0:old 1:new 2:old");
      });
    newcomer.join();
    for (auto& other : others) other.join();
  }
  EXPECT_EQ(crew[1]->generation(), 2);
}

// No generation misses it: it had left no will.
TEST(Crew, AReplacementOfAMemberThatNeverJoinedJoinsAsTheOthersDo) {
  Hall hall;
  std::vector<std::optional<Crew>> crew;
  crew.emplace_back(Crew::join(hall.client(), 0, 2).value());
  auto entered = Crew::enter(hall.client(), 1, 2, "new", in_time());
  ASSERT_TRUE(entered) << entered.error().message;
  EXPECT_EQ(entered->roll, std::nullopt);
  crew.emplace_back(std::move(entered->crew));
  each(crew, [](Crew& self) {
    const auto roll = self.meet("here", in_time());
    ASSERT_TRUE(roll) << roll.error().message;
    EXPECT_EQ(text(*roll), "0:here 1:here");
  });
}

// The first replacement dies when it has left its will and before it says that it is there: so the
// next generation misses the second one, too.
TEST(Crew, AReplacementThatTheOthersCountAsGoneEntersOnceMore) {
  Hall hall;
  auto crew = hall.crew(2);
  crew[1].reset();
  auto half_way_in = hall.client();
  ASSERT_TRUE(half_way_in->leave_behind("crew/2/1", "-"));
  half_way_in.reset();
  ASSERT_TRUE(hall.client()->get("crew/2/1", in_time()));
  std::thread newcomer([&] {
    auto entered = Crew::enter(hall.client(), 1, 2, "new", in_time());
    ASSERT_TRUE(entered) << entered.error().message;
    EXPECT_EQ(entered->crew.meet("new", in_time()).error().code, Code::denied);
    const auto roll = entered->crew.enter_again("new again", in_time());
    ASSERT_TRUE(roll) << roll.error().message;
    EXPECT_EQ(text(*roll), "0:still here 1:new again");
    crew[1].emplace(std::move(entered->crew));
  });
  for (const auto& [words, whole] :
       {std::pair{"here", "0:here 1:new"}, std::pair{"still here", "0:still here 1:new again"}}) {
    const auto met = crew[0]->meet(words, in_time());
    ASSERT_TRUE(met) << met.error().message;
    const auto roll = crew[0]->with_replacements(*met, in_time());
    ASSERT_TRUE(roll) << roll.error().message;
    EXPECT_EQ(text(*roll), whole);
  }
  newcomer.join();
  EXPECT_EQ(crew[1]->generation(), 2);
}

TEST(Crew, ADeathIsToldForAMemberThatNeverJoinedAndChangesNothingForOneThatSpoke) {
  Hall hall;
  auto first = Crew::join(hall.client(), 0, 2).value();
  ASSERT_TRUE(first.watch({0, 1}));
  const auto place = hall.client();
  ASSERT_TRUE(Crew::tell_death(*place, 1));
  EXPECT_EQ(loss(first).code, Code::peer_lost);
  EXPECT_EQ(first.lost(), 1);

  Hall other_hall;
  auto crew = other_hall.crew(2);
  each(crew, [](Crew& self) { ASSERT_TRUE(self.meet("here", in_time())); });
  ASSERT_TRUE(Crew::tell_death(*other_hall.client(), 1));
  each(crew, [](Crew& self) {
    const auto roll = self.meet("again", in_time());
    ASSERT_TRUE(roll) << roll.error().message;
    EXPECT_EQ(text(*roll), "0:again 1:again");
  });
}

TEST(Crew, WhereNoReplacementComesAllSaySo) {
  Hall hall;
  auto crew = hall.crew(3);
  crew[2].reset();
  each(crew, [](Crew& self) {
    const auto roll = self.meet("here", in_time());
    ASSERT_TRUE(roll) << roll.error().message;
    const auto whole = self.with_replacements(*roll, too_early());
    ASSERT_FALSE(whole);
    EXPECT_NE(whole.error().message.find("nobody came in place of member 2"), std::string::npos);
  });
}

}  // namespace
}  // namespace lockstep
