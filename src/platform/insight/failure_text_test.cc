// The error in the last lines of a rank, over outputs as Python, torch, NCCL and C++ print them.
#include "platform/insight/failure_text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/format.h"

namespace lockstep::insight {
namespace {

using ::testing::HasSubstr;

std::vector<std::string> lines_of(std::string_view text) {
  std::vector<std::string> lines;
  for (; !text.empty();) {
    const auto end = std::min(text.find('\n'), text.size());
    lines.emplace_back(text.substr(0, end));
    text.remove_prefix(std::min(text.size(), end + 1));
  }
  return lines;
}

std::string joined(const FailureText& found) {
  std::string text;
  for (const std::string& line : found.lines) text += line + "\n";
  return text;
}

void expect_failure(std::string_view output, std::string_view summary, std::string_view block) {
  const auto found = find_failure(lines_of(output));
  ASSERT_TRUE(found.has_value()) << output;
  EXPECT_EQ(found->summary, summary);
  EXPECT_EQ(joined(*found), block);
}

constexpr std::string_view kValueError =
    "Traceback (most recent call last):\n"
    "  File \"/home/ann/train.py\", line 41, in <module>\n"
    "    main()\n"
    "  File \"/home/ann/train.py\", line 30, in main\n"
    "    check(loss)\n"
    "    ^^^^^^^^^^^\n"
    "ValueError: the loss is not finite: nan\n";

TEST(FailureText, ATracebackOfPythonIsFoundBetweenOtherLines) {
  expect_failure("step 1 loss 0.5\n" + std::string(kValueError) + "\nbye\n",
                 "ValueError: the loss is not finite: nan", kValueError);
}

TEST(FailureText, ThePrefixesOfTorchAreLeftOut) {
  std::string marked;
  for (const std::string& line : lines_of(kValueError)) marked += "[rank5]: " + line + "\n";
  expect_failure(marked, "ValueError: the loss is not finite: nan", kValueError);
}

TEST(FailureText, TheCausesOfAnExceptionAreAPartOfIt) {
  const std::string chain =
      "Traceback (most recent call last):\n"
      "  File \"train.py\", line 3, in load\n"
      "    open(path)\n"
      "FileNotFoundError: [Errno 2] No such file or directory: 'data.bin'\n"
      "\n"
      "During handling of the above exception, another exception occurred:\n"
      "\n"
      "Traceback (most recent call last):\n"
      "  File \"train.py\", line 5, in load\n"
      "    fallback()\n"
      "KeyError: 'url'\n"
      "\n"
      "The above exception was the direct cause of the following exception:\n"
      "\n"
      "Traceback (most recent call last):\n"
      "  File \"train.py\", line 9, in <module>\n"
      "    load()\n"
      "RuntimeError: no data\n";
  expect_failure(
      "Traceback (most recent call last):\n  File \"a.py\", line 1\nOSError: handled\n"
      "going on\n" +
          chain,
      "RuntimeError: no data", chain);
}

TEST(FailureText, AMessageOfSeveralLinesBelongsToItsException) {
  const std::string cuda =
      "Traceback (most recent call last):\n"
      "  File \"train.py\", line 9, in <module>\n"
      "    loss.backward()\n"
      "RuntimeError: CUDA error: device-side assert triggered\n"
      "CUDA kernel errors might be asynchronously reported at some other API call.\n"
      "For debugging consider passing CUDA_LAUNCH_BLOCKING=1\n";
  expect_failure(cuda +
                     "\nterminate called after throwing an instance of 'c10::Error'\n"
                     "  what():  CUDA error: device-side assert triggered\n",
                 "RuntimeError: CUDA error: device-side assert triggered", cuda);
}

TEST(FailureText, OutOfMemoryOfADeviceIsItsException) {
  const std::string error =
      "Traceback (most recent call last):\n"
      "  File \"train.py\", line 12, in <module>\n"
      "    y = model(x)\n"
      "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 20.00 GiB. GPU 0 has a total "
      "capacity of 79.11 GiB of which 3.20 GiB is free.\n";
  expect_failure(error,
                 "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 20.00 GiB. GPU 0 "
                 "has a total capacity of 79.11 GiB of which 3.20 GiB is free.",
                 error);
}

TEST(FailureText, ExceptionsWithoutATextAndFilesThatPythonCannotReadAreFound) {
  const std::string interrupt =
      "Traceback (most recent call last):\n  File \"a.py\", line 1, in <module>\n"
      "    sleep()\nKeyboardInterrupt\n";
  expect_failure(interrupt, "KeyboardInterrupt", interrupt);
  const std::string syntax =
      "  File \"/home/ann/train.py\", line 7\n    def f(:\n          ^\n"
      "SyntaxError: invalid syntax\n";
  expect_failure("starting\n" + syntax, "SyntaxError: invalid syntax", syntax);
}

constexpr std::string_view kBox =
    "============================================================\n"
    "train.py FAILED\n"
    "------------------------------------------------------------\n"
    "Failures:\n"
    "  <NO_OTHER_FAILURES>\n"
    "------------------------------------------------------------\n"
    "Root Cause (first observed failure):\n"
    "[0]:\n"
    "  time      : 2026-03-01_10:00:00\n"
    "  host      : node1\n"
    "  rank      : 1 (local_rank: 1)\n"
    "  exitcode  : 1 (pid: 4242)\n"
    "  error_file: <N/A>\n"
    "  traceback : To enable traceback see: https://pytorch.org/docs/stable/elastic/errors.html\n"
    "============================================================\n";
constexpr std::string_view kTorchrun =
    "Traceback (most recent call last):\n"
    "  File \"/venv/bin/torchrun\", line 8, in <module>\n"
    "    sys.exit(main())\n"
    "torch.distributed.elastic.multiprocessing.errors.ChildFailedError: \n";

TEST(FailureText, TheWorkerThatTorchrunNamesComesBeforeItsPeersAndTorchrun) {
  std::string output;
  for (const std::string& line : lines_of(kValueError)) output += "[rank1]: " + line + "\n";
  output +=
      "[rank0]: Traceback (most recent call last):\n"
      "[rank0]:   File \"train.py\", line 2, in <module>\n"
      "[rank0]:     all_reduce()\n"
      "[rank0]: RuntimeError: Connection closed by peer\n";
  expect_failure(output + std::string(kTorchrun) + std::string(kBox),
                 "ValueError: the loss is not finite: nan", kValueError);
}

TEST(FailureText, WithoutATracebackOfAWorkerTheBoxOfTorchrunIsShown) {
  const auto found = find_failure(lines_of(std::string(kTorchrun) + std::string(kBox)));
  ASSERT_TRUE(found.has_value());
  EXPECT_EQ(found->summary, "exitcode  : 1 (pid: 4242)");
  EXPECT_THAT(joined(*found), HasSubstr("rank      : 1 (local_rank: 1)\n"));
}

TEST(FailureText, TheWatchdogOfNcclComesBeforeTheCrashThatItCauses) {
  const std::string watchdog =
      "[rank3]:[E301 10:00:00.000 ProcessGroupNCCL.cpp:629] [Rank 3] Watchdog caught collective "
      "operation timeout: WorkNCCL(SeqNum=7, OpType=ALLREDUCE, NumelIn=1, Timeout(ms)=600000) ran "
      "for 600012 milliseconds before timing out.\n";
  const std::string crash =
      "terminate called after throwing an instance of 'c10::DistBackendError'\n"
      "  what():  [PG ID 0 PG GUID 0 Rank 3] Process group watchdog thread terminated with "
      "exception\n";
  const auto found = find_failure(lines_of("step 6\n" + watchdog + "\n" + crash));
  ASSERT_TRUE(found.has_value());
  EXPECT_THAT(found->summary, HasSubstr("Watchdog caught collective operation timeout"));
}

TEST(FailureText, AnUncaughtExceptionOfCppHasItsTypeAndText) {
  const std::string crash =
      "terminate called after throwing an instance of 'std::out_of_range'\n"
      "  what():  vector::_M_range_check: __n (which is 9) >= this->size() (which is 3)\n";
  expect_failure("step 6\n" + crash,
                 "std::out_of_range: vector::_M_range_check: __n (which is 9) >= this->size() "
                 "(which is 3)",
                 crash);
  expect_failure("terminate called without an active exception\n",
                 "terminate called without an active exception",
                 "terminate called without an active exception\n");
}

TEST(FailureText, AssertionsCrashesOfPythonAndCudaErrorsAreFound) {
  for (const std::string line :
       {"sum: sum.cc:12: int main(): Assertion `n > 0' failed.",
        "../aten/src/ATen/native/cuda/Indexing.cu:1255: operator(): block: [0,0,0], thread: "
        "[3,0,0] Assertion `srcIndex < srcSelectDimSize` failed.",
        "Fatal Python error: Segmentation fault",
        "CUDA error: an illegal memory access was encountered"})
    expect_failure("step 6\n" + line + "\n", line, line + "\n");
}

TEST(FailureText, ATracebackLongBeforeACrashWasHandled) {
  std::string output(kValueError);
  for (int i = 0; i < 100; ++i) output += format("step {}\n", i);
  expect_failure(output + "Fatal Python error: Aborted\n", "Fatal Python error: Aborted",
                 "Fatal Python error: Aborted\n");
}

TEST(FailureText, AMessageOfManyLinesKeepsItsEnd) {
  std::string output = "Traceback (most recent call last):\n";
  for (int i = 0; i < 500; ++i) output += format("  File \"a.py\", line {}, in f\n", i);
  const auto found = find_failure(lines_of(output + "RecursionError: too deep\n"));
  ASSERT_TRUE(found.has_value());
  EXPECT_EQ(found->lines.size(), 60U);
  EXPECT_EQ(found->lines.back(), "RecursionError: too deep");
}

TEST(FailureText, LinesWithoutAnErrorHaveNone) {
  EXPECT_FALSE(find_failure({}).has_value());
  EXPECT_FALSE(find_failure(lines_of("step 1\nno error: 0 failed\n")).has_value());
  EXPECT_FALSE(
      find_failure(lines_of("Traceback (most recent call last):\n  File \"a\"\n")).has_value())
      << "the output was cut off";
}

}  // namespace
}  // namespace lockstep::insight
