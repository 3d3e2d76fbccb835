// The behaviour of ranks that wait for others when one is lost.
#include <future>

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include "comm/fabric/endpoint/endpoint.h"
#include "comm/rendezvous/client.h"
#include "comm/rendezvous/local.h"
#include "comm/rendezvous/membership.h"
#include "comm/rendezvous/server.h"

namespace lockstep::comm {
namespace {

using namespace std::chrono_literals;

const net::Secret kSecret = net::Secret::random();

EndpointOptions options_of(int rank) {
  return {.rank = rank,
          .size = 3,
          .host_id = "a",
          .secret = kSecret,
          .group = "test",
          .timeout = 60s,
          .network = {.address = "127.0.0.1"}};
}

// Rank 2 connects to rank 0, then asks for the address of rank 1, which never arrives: `at_rank_1`
// simulates what happens to rank 1.
class FailingRendezvous : public Rendezvous {
 public:
  FailingRendezvous(Rendezvous& below, std::function<Error()> at_rank_1)
      : below_(below), at_rank_1_(std::move(at_rank_1)) {}
  Result<void> set(std::string_view key, std::string_view value) override {
    return below_.set(key, value);
  }
  Result<std::string> get(std::string_view key, Deadline deadline) override {
    if (key.ends_with("rank-1")) return at_rank_1_();
    return below_.get(key, deadline);
  }

 private:
  Rendezvous& below_;
  std::function<Error()> at_rank_1_;
};

TEST(Meeting, ARankThatGivesUpEndsTheWaitOfThoseItHasMetAndSaysWhy) {
  LocalRendezvous place;
  auto rank_2 = std::async(std::launch::async, [&] {
    FailingRendezvous lost(place, [] { return Error{Code::corrupt, "the map is torn"}; });
    return Endpoint::create(options_of(2), lost).has_value();
  });
  const auto begun = Deadline::after(10s);
  auto rank_0 = Endpoint::create(options_of(0), place);
  ASSERT_FALSE(rank_0);
  EXPECT_NE(rank_0.error().message.find("rank 2 gave up: "), std::string::npos)
      << rank_0.error().message;
  EXPECT_NE(rank_0.error().message.find("the map is torn"), std::string::npos);
  EXPECT_FALSE(begun.passed());
  EXPECT_FALSE(rank_2.get());
}

TEST(Meeting, ARankThatComesWhenTheOthersHaveGivenUpFindsTheFirstReason) {
  LocalRendezvous place;
  auto rank_2 = std::async(std::launch::async, [&] {
    FailingRendezvous lost(place, [] { return Error{Code::corrupt, "the map is torn"}; });
    return Endpoint::create(options_of(2), lost).has_value();
  });
  ASSERT_FALSE(Endpoint::create(options_of(0), place));
  ASSERT_FALSE(rank_2.get());
  const auto rank_1 = Endpoint::create(options_of(1), place);
  ASSERT_FALSE(rank_1);
  EXPECT_NE(rank_1.error().message.find("rank 2 gave up: "), std::string::npos)
      << rank_1.error().message;
  EXPECT_NE(rank_1.error().message.find("the map is torn"), std::string::npos);
}

TEST(Meeting, ARankWithAReasonOfItsOwnKeepsItAfterOthersHaveGivenUp) {
  LocalRendezvous place;
  ASSERT_TRUE(place.set("fabric/test/failure", "left by another version"));
  FailingRendezvous lost(place, [] { return Error{Code::corrupt, "the map is torn"}; });
  auto rank_0 = std::async(std::launch::async,
                           [&] { return Endpoint::create(options_of(0), place).has_value(); });
  const auto rank_2 = Endpoint::create(options_of(2), lost);
  ASSERT_FALSE(rank_2);
  EXPECT_NE(rank_2.error().message.find("the map is torn"), std::string::npos);
  EXPECT_FALSE(rank_0.get());
}

TEST(Meeting, ARankThatDiesEndsTheWaitOfThoseItHasMet) {
  int port_ends[2];
  ASSERT_EQ(::pipe(port_ends), 0);
  const pid_t child = ::fork();  // before this process has threads
  if (child == 0) {
    ::alarm(30);
    std::uint16_t port = 0;
    if (::read(port_ends[0], &port, sizeof port) != sizeof port) ::_exit(1);
    auto client = RendezvousClient::connect("127.0.0.1", port, kSecret, Deadline::after(10s));
    FailingRendezvous lost(**client, []() -> Error { ::_exit(0); });
    (void)Endpoint::create(options_of(2), lost);
    ::_exit(1);
  }
  auto server = RendezvousServer::start("127.0.0.1", 0, kSecret).value();
  const std::uint16_t port = server->port();
  ASSERT_EQ(::write(port_ends[1], &port, sizeof port), static_cast<ssize_t>(sizeof port));
  auto client = RendezvousClient::connect("127.0.0.1", port, kSecret, Deadline::after(10s)).value();
  const auto begun = Deadline::after(10s);
  auto rank_0 = Endpoint::create(options_of(0), *client);
  ASSERT_FALSE(rank_0);
  EXPECT_EQ(rank_0.error().code, Code::peer_lost);
  EXPECT_NE(rank_0.error().message.find("rank 2 (host a"), std::string::npos)
      << rank_0.error().message;
  EXPECT_FALSE(begun.passed());
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  ::close(port_ends[0]);
  ::close(port_ends[1]);
}

// Ranks of one membership; the missing one has died before it connected to any other.
TEST(Meeting, ARankThatDiesBeforeItComesEndsTheWaitOfItsCrew) {
  for (const int missing : {0, 1, 2}) {
    SCOPED_TRACE(missing);
    auto server = RendezvousServer::start("127.0.0.1", 0, kSecret).value();
    const auto client = [&] {
      return RendezvousClient::connect("127.0.0.1", server->port(), kSecret, Deadline::after(10s))
          .value();
    };
    auto dying = Membership::join(client(), missing, 3).value();
    const auto begun = Deadline::after(10s);
    std::vector<std::future<Result<void>>> others;
    std::vector<std::promise<void>> here(3);
    for (int rank = 0; rank < 3; ++rank) {
      if (rank == missing) continue;
      others.push_back(std::async(std::launch::async, [&, rank]() -> Result<void> {
        auto crew = TRY(Membership::join(client(), rank, 3));
        TRY(crew.watch({0, 1, 2}));
        here[static_cast<std::size_t>(rank)].set_value();
        auto options = options_of(rank);
        options.membership = &crew;
        auto place = client();
        TRY(Endpoint::create(options, *place));
        return {};
      }));
    }
    for (int rank = 0; rank < 3; ++rank)
      if (rank != missing) here[static_cast<std::size_t>(rank)].get_future().wait();
    {
      const auto dead = std::move(dying);
    }
    for (auto& other : others) EXPECT_FALSE(other.get());
    EXPECT_FALSE(begun.passed());
  }
}

}  // namespace
}  // namespace lockstep::comm
