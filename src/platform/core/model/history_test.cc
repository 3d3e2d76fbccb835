#include "platform/core/model/history.h"

#include <gtest/gtest.h>

namespace lockstep::model {
namespace {

TEST(StoreHistory, KnowsAnOlderCopyByWhatItLacks) {
  StoreHistory history;
  record_issued(history, std::vector<Change>{StoreRow{"a", 5}, StoreRow{"b", 2}});
  EXPECT_EQ(missing_from_store({"a", 5}, history), 0);
  EXPECT_EQ(missing_from_store({"a", 3}, history), 2);
  EXPECT_EQ(missing_from_store({"a", 7}, history), 0)
      << "a daemon died before it could write the history";
  EXPECT_EQ(missing_from_store({"c", 0}, history), 0);
}

TEST(StoreHistory, KeepsTheHighestNumberOfEachProject) {
  State state;
  for (const auto& [project, number] : {std::pair("demo", 7), {"demo", 9}, {"other", 1}}) {
    model::Run run;
    run.id = {project, number};
    apply(state, run);
  }
  StoreHistory history;
  record_issued(history, state);
  record_issued(history, std::vector<Change>{state.runs.begin()->second});
  EXPECT_EQ(history.numbers, (std::map<std::string, std::int64_t>{{"demo", 9}, {"other", 1}}));
}

}  // namespace
}  // namespace lockstep::model
