// A decoder-only transformer over bytes, like GPT-2: learned positions, pre-norm blocks of
// attention and a four times wider MLP, and an output layer that is the transposed embedding. It
// does not depend on ranks: `shard` makes it train on many.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include <ATen/core/Tensor.h>
#include <torch/nn/module.h>

namespace gpt {

struct ModelOptions {
  std::int64_t layers = 4;
  std::int64_t heads = 4;
  std::int64_t width = 128;
  std::int64_t context = 64;  // bytes that a prediction can attend to
  std::uint64_t seed = 1;     // of the initial weights
};

class Linear : public torch::nn::Module {
 public:
  Linear(std::int64_t from, std::int64_t to, double spread, at::Generator& random);
  at::Tensor forward(const at::Tensor& x) const;

 private:
  at::Tensor weight_, bias_;
};

class Norm : public torch::nn::Module {
 public:
  explicit Norm(std::int64_t width);
  at::Tensor forward(const at::Tensor& x) const;

 private:
  at::Tensor weight_, bias_;
};

class Block : public torch::nn::Module {
 public:
  Block(const ModelOptions& options, at::Generator& random);
  at::Tensor forward(const at::Tensor& x) const;  // [batch, time, width], as its input

 private:
  at::Tensor attention(const at::Tensor& x) const;

  std::int64_t heads_;
  std::shared_ptr<Norm> norm1_, norm2_;
  std::shared_ptr<Linear> qkv_, project_, widen_, narrow_;
};

// Runs a block: a caller that divides its parameters over many ranks acts before and after it.
using RunBlock = std::function<at::Tensor(const Block& block, const at::Tensor& x)>;

at::Tensor run_block(const Block& block, const at::Tensor& x);

class Gpt : public torch::nn::Module {
 public:
  explicit Gpt(const ModelOptions& options);

  // Logits [batch, time, 256] for the byte after each of [batch, time] bytes; time <= context.
  at::Tensor forward(const at::Tensor& bytes, const RunBlock& run = run_block) const;
  // Mean cross-entropy in nats a byte.
  at::Tensor loss(const at::Tensor& bytes, const at::Tensor& next,
                  const RunBlock& run = run_block) const;
  // The modules with nearly all parameters.
  std::vector<torch::nn::Module*> blocks() const;

  const ModelOptions& options() const { return options_; }

 private:
  ModelOptions options_;
  at::Tensor embedding_, position_;
  std::vector<std::shared_ptr<Block>> blocks_;
  std::shared_ptr<Norm> norm_;
};

}  // namespace gpt
