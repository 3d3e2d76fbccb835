#include "platform/server/events/change_book.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace lockstep::server {
namespace {

using testing::ElementsAre;

Subject run(int number) { return {.kind = ChangeKind::run, .run = {"demo", number}}; }

TEST(ChangeBook, ASubjectThatChangedTwiceIsThereOnceAtItsLatestChange) {
  ChangeBook book(10);
  book.add(run(1));
  book.add(run(2));
  book.add(run(1));
  EXPECT_THAT(book.since(0).value(), ElementsAre(run(2), run(1)));
  EXPECT_THAT(book.since(2).value(), ElementsAre(run(1)));
  EXPECT_THAT(book.since(book.newest()).value(), ElementsAre());
}

TEST(ChangeBook, AReaderWhoseChangesMayBeForgottenIsToldSo) {
  ChangeBook book(2);
  for (int number : {1, 2, 3}) book.add(run(number));
  EXPECT_FALSE(book.since(0).has_value());
  EXPECT_THAT(book.since(1).value(), ElementsAre(run(2), run(3)));
  book.add(run(2));
  EXPECT_THAT(book.since(2).value(), ElementsAre(run(3), run(2)));
}

TEST(ChangeBook, NumbersOfBeforeAClearAndOfTheFutureAreNotKnown) {
  ChangeBook book(2);
  book.add(run(1));
  book.clear();
  EXPECT_FALSE(book.since(1).has_value());
  EXPECT_FALSE(book.since(book.newest() + 1).has_value());
  EXPECT_THAT(book.since(book.newest()).value(), ElementsAre());
}

}  // namespace
}  // namespace lockstep::server
