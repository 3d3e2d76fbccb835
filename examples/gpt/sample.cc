#include "sample.h"

#include <cstdio>
#include <string>

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/multinomial.h>
#include <ATen/ops/tensor.h>
#include <lockstep/checkpoint.h>

#include "checkpoint_notes.h"
#include "model.h"

namespace gpt {
namespace {

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

lockstep::Result<void> sample(const SampleOptions& options) {
  const auto saved = LOCKSTEP_TRY(lockstep::SavedModel::newest(options.checkpoints));
  Gpt model(LOCKSTEP_TRY(options_of(saved.notes())));
  LOCKSTEP_TRY(saved.load_into(model));

  const at::NoGradGuard no_grad;
  auto random = at::detail::createCPUGenerator(options.seed);
  std::string text = options.prompt.empty() ? "\n" : options.prompt;
  for (std::int64_t i = 0; i < options.bytes; ++i)
    text += draw(model, text, options.temperature, random);
  std::printf("%s\n", text.c_str());
  return {};
}

}  // namespace gpt
