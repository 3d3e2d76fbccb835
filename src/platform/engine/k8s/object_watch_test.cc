#include "platform/engine/k8s/object_watch.h"

#include <atomic>

#include <gtest/gtest.h>

#include "platform/engine/k8s/fake_api_server_for_test.h"
#include "platform/engine/local/eventually_for_test.h"

namespace lockstep::engine {
namespace {

using std::chrono::milliseconds;

const std::string kWatched = "/api/v1/nodes";
constexpr Duration kAge = std::chrono::seconds(10);

class ObjectWatchTest : public testing::Test {
 protected:
  std::unique_ptr<ObjectWatch> make_watch(Duration idle) {
    return std::make_unique<ObjectWatch>(ObjectWatch::Setup{
        .server = std::make_shared<FakeApiServer>(cluster_),
        .path = kWatched,
        .handlers = {.list_begins = [] {},
                     .listed = [this](const Json& items) { listed_ = items.size(); },
                     .changed = [this](const std::string&, const Json&) { ++changes_; }},
        .bounds = {.idle = idle, .pause_first = milliseconds(4), .pause_max = milliseconds(8)}});
  }
  bool is_current(ObjectWatch& watch) {
    return eventually(
        [&] { return watch.check_current(kAge, Deadline::after(milliseconds(0))).has_value(); });
  }
  void put(const std::string& name) { cluster_.put(kWatched, {{"metadata", {{"name", name}}}}); }

  FakeCluster cluster_;
  std::atomic<std::size_t> listed_ = 0, changes_ = 0;
};

TEST_F(ObjectWatchTest, AnObjectIsListedOnceAndItsChangesFollow) {
  put("a");
  const auto watch = make_watch(std::chrono::seconds(5));
  ASSERT_TRUE(is_current(*watch));
  EXPECT_EQ(listed_, 1U);
  put("b");
  put("b");
  EXPECT_TRUE(eventually([&] { return changes_ == 2; }));
  EXPECT_EQ(cluster_.count("GET "), 1);
}

TEST_F(ObjectWatchTest, AWatchThatIsSilentIsOpenedAgainWithoutAList) {
  const auto watch = make_watch(milliseconds(10));
  EXPECT_TRUE(eventually([&] { return cluster_.count("WATCH ") >= 3; }));
  put("a");
  EXPECT_TRUE(eventually([&] { return changes_ == 1; }));
  EXPECT_EQ(cluster_.count("GET "), 1);
}

TEST_F(ObjectWatchTest, WithoutAListTheErrorIsThatOfTheServer) {
  cluster_.set_away("no route to host");
  const auto watch = make_watch(std::chrono::seconds(5));
  const auto current = watch->check_current(kAge, Deadline::after(std::chrono::seconds(20)));
  ASSERT_FALSE(current);
  EXPECT_EQ(current.error().message, "no route to host");
  cluster_.set_away("");
  EXPECT_TRUE(is_current(*watch));
}

}  // namespace
}  // namespace lockstep::engine
