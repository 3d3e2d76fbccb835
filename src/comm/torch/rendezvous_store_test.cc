#include "comm/torch/rendezvous_store.h"

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <c10/util/Exception.h>
#include <gtest/gtest.h>

#include "base/clock.h"
#include "comm/rendezvous/server.h"
#include "net/crypto.h"

namespace lockstep::comm {
namespace {

using namespace std::chrono_literals;

class RendezvousStoreTest : public testing::Test {
 protected:
  c10::intrusive_ptr<c10d::Store> open(const std::string& prefix) {
    auto client =
        RendezvousClient::connect("127.0.0.1", server_->port(), secret_, Deadline::after(10s));
    return c10::make_intrusive<RendezvousStore>(std::move(client).value(), prefix, 50ms,
                                                group_end_.future());
  }

  const OperationPromise group_end_;

 private:
  const net::Secret secret_ = net::Secret::random();
  const std::unique_ptr<RendezvousServer> server_ =
      RendezvousServer::start("127.0.0.1", 0, secret_).value();
};

std::string message_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const std::exception& error) {
    return error.what();
  }
  return "";
}

TEST_F(RendezvousStoreTest, AnotherRankOfTheSameGroupReadsWhatOneHasSet) {
  const auto one = open("a");
  const auto other = open("a");
  const auto of_another_group = open("b");
  const std::string bytes("\0x\n", 3);
  one->set("id", bytes);
  EXPECT_EQ(other->get_to_str("id"), bytes);
  EXPECT_TRUE(other->check({"id"}));
  EXPECT_FALSE(other->check({"id", "another"}));
  EXPECT_FALSE(of_another_group->check({"id"}));
}

TEST_F(RendezvousStoreTest, AWaitEndsWithItsTimeOutAndNamesTheKey) {
  const auto store = open("a");
  EXPECT_NE(message_of([&] { (void)store->get("late"); }).find("late"), std::string::npos);
  EXPECT_NE(message_of([&] { store->wait({"later"}, 1ms); }).find("later"), std::string::npos);
}

TEST_F(RendezvousStoreTest, AWaitEndsWithTheReasonForWhichTheGroupEnded) {
  const auto store = open("a");
  group_end_.complete(Error{Code::peer_lost, "rank 1 died"});
  const auto begin = std::chrono::steady_clock::now();
  EXPECT_NE(message_of([&] { store->wait({"key"}, 60s); }).find("rank 1 died"), std::string::npos);
  EXPECT_LT(std::chrono::steady_clock::now() - begin, 30s);
}

TEST_F(RendezvousStoreTest, AKeyKeepsItsFirstValueAndCountersAreRefused) {
  const auto store = open("a");
  store->set("id", "first");
  EXPECT_NE(message_of([&] { store->set("id", "second"); }), "");
  EXPECT_EQ(store->get_to_str("id"), "first");
  EXPECT_FALSE(store->deleteKey("id"));
  EXPECT_NE(message_of([&] { store->add("uses", 1); }).find("uses"), std::string::npos);
}

}  // namespace
}  // namespace lockstep::comm
