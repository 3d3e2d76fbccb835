#include "platform/engine/hosts/service_session.h"

#include <gtest/gtest.h>

namespace lockstep::engine {
namespace {

api::ServiceOrders answer(const std::string& session, std::int64_t number) {
  return {.session = session, .number = number};
}

map::Host machine(const std::string& address) {
  map::Host host;
  host.id = "a";
  host.address = address;
  return host;
}

class ServiceSessionTest : public ::testing::Test {
 protected:
  // The answer to a report that was made now.
  bool hears(const api::ServiceOrders& orders) { return hears(session_.begin_report(), orders); }
  bool hears(const api::ServiceReport& report, const api::ServiceOrders& orders) {
    session_.record_answer(report);
    const bool counts = session_.begin_orders(report, orders);
    if (counts) session_.record_orders_done(orders);
    return counts;
  }

  ServiceSession session_{"first"};
};

TEST_F(ServiceSessionTest, ReportsAreNumberedAndNameTheLastAnswerThatWasCarriedOut) {
  const auto first = session_.begin_report();
  EXPECT_EQ(first.service, "first");
  EXPECT_EQ(first.session, "");
  EXPECT_TRUE(hears(answer("one", 4)));
  const auto next = session_.begin_report();
  EXPECT_GT(next.number, first.number);
  EXPECT_EQ(next.session, "one");
  EXPECT_EQ(next.answered, 4);
}

TEST_F(ServiceSessionTest, AnAnswerThatANewerOneOvertookIsVoid) {
  EXPECT_TRUE(hears(answer("one", 4)));
  EXPECT_FALSE(hears(answer("one", 3)));
  EXPECT_FALSE(hears(answer("one", 4)));
  EXPECT_EQ(session_.begin_report().answered, 4);
}

TEST_F(ServiceSessionTest, ALateAnswerOfADaemonThatWasReplacedIsVoid) {
  EXPECT_TRUE(hears(answer("one", 1)));
  const auto report = session_.begin_report();
  EXPECT_TRUE(hears(answer("three", 1)));
  EXPECT_FALSE(hears(report, answer("one", 2)));
  EXPECT_FALSE(hears(report, answer("two", 1))) << "no answer of that daemon came before";
  EXPECT_EQ(session_.begin_report().session, "three");
  EXPECT_TRUE(hears(answer("four", 1)));
}

TEST_F(ServiceSessionTest, FactsAreReportedUntilTheDaemonOfThisSessionHasThem) {
  EXPECT_FALSE(session_.begin_report().facts);
  session_.set_facts(machine("10.0.0.1"));
  EXPECT_TRUE(hears(answer("one", 1)));
  EXPECT_TRUE(session_.begin_report().facts) << "the answer told of a new session";
  EXPECT_TRUE(hears(answer("one", 2)));
  EXPECT_FALSE(session_.begin_report().facts);
  EXPECT_TRUE(hears(answer("two", 1)));
  EXPECT_TRUE(session_.begin_report().facts);
}

TEST_F(ServiceSessionTest, FactsThatChangedDuringACallAreReportedAgain) {
  session_.set_facts(machine("10.0.0.1"));
  EXPECT_TRUE(hears(answer("one", 1)));
  const auto report = session_.begin_report();
  session_.set_facts(machine("10.0.0.2"));
  EXPECT_TRUE(hears(report, answer("one", 2)));
  EXPECT_EQ(session_.begin_report().facts, machine("10.0.0.2"));
}

TEST_F(ServiceSessionTest, ANodeIsKnownToTheDaemonThatOrderedIt) {
  auto orders = answer("one", 1);
  orders.start.push_back({});
  orders.start[0].launch.node = "demo/1.1/0";
  orders.start[0].launch.generation = "0f";
  EXPECT_TRUE(hears(orders));
  EXPECT_TRUE(session_.was_ordered("0f:demo/1.1/0"));
  EXPECT_TRUE(hears(answer("two", 1)));
  EXPECT_FALSE(session_.was_ordered("0f:demo/1.1/0"));
}

}  // namespace
}  // namespace lockstep::engine
