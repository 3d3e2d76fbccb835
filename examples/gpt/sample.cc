#include "sample.h"

#include <cstdio>
#include <string>

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/multinomial.h>
#include <ATen/ops/tensor.h>

#include "checkpoint_notes.h"
#include "model.h"
#include "train/checkpoint/format/saved_checkpoint.h"
#include "train/checkpoint/load.h"
#include "train/checkpoint/state.h"

namespace lockstep::gpt {
namespace {

Result<std::vector<train::OwnedTensor>> parameters_of(const Gpt& model) {
  std::vector<train::OwnedTensor> parameters;
  for (const auto& item : model.named_parameters())
    parameters.push_back(TRY(train::whole("parameter/" + item.key(), item.value())));
  return parameters;
}

// The next byte, drawn from what the model expects after the last `context` bytes of `text`.
char draw(const Gpt& model, const std::string& text, double temperature, at::Generator& random) {
  const auto window = std::min(text.size(), static_cast<std::size_t>(model.options().context));
  std::vector<std::int64_t> bytes;
  for (char byte : text.substr(text.size() - window))
    bytes.push_back(static_cast<unsigned char>(byte));
  const auto logits = model.forward(at::tensor(bytes).unsqueeze(0)).select(1, -1).squeeze(0);
  const auto next = at::multinomial((logits / temperature).softmax(-1), 1, true, random);
  return static_cast<char>(next.item<std::int64_t>());
}

}  // namespace

Result<void> sample(const SampleOptions& options) {
  const auto checkpoint = TRY(train::newest_checkpoint(options.checkpoints));
  const Gpt model(TRY(options_of(checkpoint.manifest().notes)));
  const auto parameters = TRY(parameters_of(model));
  TRY(train::check_fits(checkpoint.manifest(), parameters));
  TRY(train::load(checkpoint, parameters));

  const at::NoGradGuard no_grad;
  auto random = at::detail::createCPUGenerator(options.seed);
  std::string text = options.prompt.empty() ? "\n" : options.prompt;
  for (std::int64_t i = 0; i < options.bytes; ++i)
    text += draw(model, text, options.temperature, random);
  std::printf("%s\n", text.c_str());
  return {};
}

}  // namespace lockstep::gpt
