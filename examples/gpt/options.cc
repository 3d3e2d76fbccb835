#include "options.h"

#include <map>
#include <string>

#include <CLI/CLI.hpp>

namespace gpt {
namespace {

const std::map<std::string, lockstep::Backend> kBackends = {
    {"lockstep", lockstep::Backend::lockstep}, {"gloo", lockstep::Backend::gloo}};

void add_train(CLI::App& command, TrainOptions& options) {
  const auto positive = CLI::PositiveNumber;
  command.add_option("--data", options.data, "text file, or folder with train.txt and heldout.txt")
      ->required()
      ->check(CLI::ExistingPath);
  command.add_option("--steps", options.steps, "optimizer steps")
      ->check(positive)
      ->capture_default_str();
  command.add_option("--batch", options.batch, "windows a step, over all ranks")
      ->check(positive)
      ->capture_default_str();
  command
      .add_option("--micro-steps", options.micro_steps, "parts in which a rank computes its share")
      ->check(positive)
      ->capture_default_str();
  command.add_option("--learning-rate", options.learning_rate, "at its peak")
      ->check(positive)
      ->capture_default_str();
  command.add_option("--warmup", options.warmup, "steps up to the peak")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  command.add_option("--weight-decay", options.weight_decay)
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  command.add_option("--clip-norm", options.clip_norm, "largest global gradient norm")
      ->check(positive)
      ->capture_default_str();
  command.add_option("--seed", options.seed, "of the data's order and the initial weights")
      ->capture_default_str();
  command.add_option("--layers", options.model.layers)->check(positive)->capture_default_str();
  command.add_option("--heads", options.model.heads)->check(positive)->capture_default_str();
  command.add_option("--width", options.model.width)->check(positive)->capture_default_str();
  command.add_option("--context", options.model.context, "bytes that a prediction looks back on")
      ->check(positive)
      ->capture_default_str();
  command.add_option("--evaluate-every", options.evaluate_every, "steps between held-out losses")
      ->check(positive)
      ->capture_default_str();
  command
      .add_option("--checkpoint-every", options.checkpoint_every,
                  "steps between checkpoints; 0: by time, what loses least")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  command.add_option("--checkpoints", options.checkpoints, "folder; continues from what is there")
      ->envname("LOCKSTEP_CHECKPOINT_DIR");
  command
      .add_option("--backend", options.backend,
                  "what carries the gradients: lockstep (the default) or gloo")
      ->transform(CLI::CheckedTransformer(kBackends).description("NAME"));
  command
      .add_option("--policy", options.policy,
                  "what is divided among ranks: ddp, zero1, zero2, zero3, mics:2, ...")
      ->capture_default_str();
  command.add_flag("--rescale-batch", options.rescale_batch,
                   "when fewer ranks go on after a death: a smaller batch, and learning rate, "
                   "instead of more windows a rank");
}

void add_sample(CLI::App& command, SampleOptions& options) {
  command.add_option("--checkpoints", options.checkpoints, "the training's checkpoint folder")
      ->required()
      ->check(CLI::ExistingDirectory);
  command.add_option("--bytes", options.bytes, "length of the text")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  command.add_option("--prompt", options.prompt, "how the text begins");
  command.add_option("--temperature", options.temperature, "below 1: the likelier is preferred")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  command.add_option("--seed", options.seed)->capture_default_str();
}

}  // namespace

std::variant<Options, int> parse_options(int argc, char** argv) {
  CLI::App app("A byte-level GPT that trains on many ranks and writes text.", "gpt");
  TrainOptions train;
  SampleOptions sample;
  auto& train_command = *app.add_subcommand("train", "train on text, one process a rank");
  add_train(train_command, train);
  auto& sample_command = *app.add_subcommand("sample", "write text with the newest checkpoint");
  add_sample(sample_command, sample);
  app.require_subcommand(1);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& stop) {
    return app.exit(stop);
  }
  if (train_command) return Options(train);
  return Options(sample);
}

}  // namespace gpt
