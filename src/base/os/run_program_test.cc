#include "base/os/run_program.h"

#include <chrono>
#include <string>

#include <gtest/gtest.h>
#include <signal.h>

namespace lockstep {
namespace {

using std::chrono_literals::operator""ms;
using std::chrono_literals::operator""s;

TEST(RunProgram, TakesOutputErrorsAndStatus) {
  const auto end = run_program({"sh", "-c", "echo one; echo two >&2; exit 3"}, 10s);
  ASSERT_TRUE(end) << end.error().message;
  EXPECT_EQ(end->status, 3);
  EXPECT_EQ(end->output, "one\ntwo");
}

TEST(RunProgram, TakesErrorsApart) {
  const auto end = run_program({"sh", "-c", "echo one; echo two >&2"}, 10s, own_environment(),
                               StandardError::separate);
  ASSERT_TRUE(end) << end.error().message;
  EXPECT_EQ(end->output, "one");
  EXPECT_EQ(end->errors, "two");
}

TEST(RunProgram, TakesMoreThanAPipeHolds) {
  const auto end = run_program({"sh", "-c", "head -c 300000 /dev/zero | tr '\\0' x"}, 10s);
  ASSERT_TRUE(end) << end.error().message;
  EXPECT_EQ(end->output.size(), 300000u);
}

TEST(RunProgram, ShowsASignalAsAShellDoes) {
  const auto end = run_program({"sh", "-c", "kill -TERM $$"}, 10s);
  ASSERT_TRUE(end) << end.error().message;
  EXPECT_EQ(end->status, 143);
}

TEST(RunProgram, DoesNotWaitForAProcessThatStaysBehindWithItsOutput) {
  const auto end = run_program({"sh", "-c", "sleep 600 & echo $!"}, 60s);
  ASSERT_TRUE(end) << end.error().message;
  const pid_t left = std::stoi(end->output);
  EXPECT_EQ(::kill(left, SIGKILL), 0);
}

TEST(RunProgram, KillsAProgramThatTakesTooLong) {
  const auto end = run_program({"sleep", "60"}, 50ms);
  ASSERT_FALSE(end);
  EXPECT_EQ(end.error().code, Code::timeout);
}

TEST(RunProgram, NamesAProgramThatIsMissing) {
  const auto end = run_program({"no-such-program"}, 1s);
  ASSERT_FALSE(end);
  EXPECT_EQ(end.error().code, Code::not_found);
}

}  // namespace
}  // namespace lockstep
