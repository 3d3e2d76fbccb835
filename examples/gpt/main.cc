// gpt: a byte-level language model trained on many ranks; the example that the guide walks through.
//   lockstep run -n 2 -g 2 -- build/bin/gpt train --data build/data/shakespeare
//   build/bin/gpt sample --checkpoints FOLDER --bytes 400
#include <cstdio>

#include <ATen/Parallel.h>

#include "options.h"
#include "sample.h"
#include "train.h"

namespace gpt {
namespace {

constexpr int kFailed = 1;
// The exit code of a shell for SIGTERM: the training is not complete, but it got a stop request.
constexpr int kTerminated = 128 + 15;

int failed(const lockstep::Error& error) {
  std::fprintf(stderr, "gpt: %s\n", error.message.c_str());
  return kFailed;
}

int run(const TrainOptions& options) {
  const auto outcome = train(options);
  if (!outcome) return failed(outcome.error());
  return *outcome == Outcome::finished ? 0 : kTerminated;
}

int run(const SampleOptions& options) {
  const auto done = sample(options);
  return done ? 0 : failed(done.error());
}

}  // namespace
}  // namespace gpt

int main(int argc, char** argv) {
  using namespace gpt;
  // Ranks share cores: one thread each (at::linear would take all).
  at::set_num_threads(1);
  const auto parsed = parse_options(argc, argv);
  if (const int* code = std::get_if<int>(&parsed)) return *code;
  return std::visit([](const auto& options) { return run(options); }, std::get<Options>(parsed));
}
