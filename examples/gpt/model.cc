#include "model.h"

#include <cmath>

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/ops/cross_entropy_loss.h>
#include <ATen/ops/embedding.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/gelu.h>
#include <ATen/ops/layer_norm.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/scaled_dot_product_attention.h>
#include <ATen/ops/zeros.h>

namespace gpt {
namespace {

constexpr std::int64_t kBytes = 256;
constexpr double kSpread = 0.02;

at::Tensor normal(at::IntArrayRef shape, double spread, at::Generator& random) {
  return at::empty(shape).normal_(0, spread, random);
}

}  // namespace

Linear::Linear(std::int64_t from, std::int64_t to, double spread, at::Generator& random)
    : weight_(register_parameter("weight", normal({to, from}, spread, random))),
      bias_(register_parameter("bias", at::zeros({to}))) {}

at::Tensor Linear::forward(const at::Tensor& x) const { return at::linear(x, weight_, bias_); }

Norm::Norm(std::int64_t width)
    : weight_(register_parameter("weight", at::ones({width}))),
      bias_(register_parameter("bias", at::zeros({width}))) {}

at::Tensor Norm::forward(const at::Tensor& x) const {
  return at::layer_norm(x, weight_.sizes(), weight_, bias_);
}

Block::Block(const ModelOptions& options, at::Generator& random) : heads_(options.heads) {
  const auto width = options.width;
  // Every block adds two branches to the stream, whose variance must not grow with depth.
  const double branch = kSpread / std::sqrt(2.0 * static_cast<double>(options.layers));
  const auto linear = [&](std::int64_t from, std::int64_t to, double spread) {
    return std::make_shared<Linear>(from, to, spread, random);
  };
  norm1_ = register_module("norm1", std::make_shared<Norm>(width));
  qkv_ = register_module("qkv", linear(width, 3 * width, kSpread));
  project_ = register_module("project", linear(width, width, branch));
  norm2_ = register_module("norm2", std::make_shared<Norm>(width));
  widen_ = register_module("widen", linear(width, 4 * width, kSpread));
  narrow_ = register_module("narrow", linear(4 * width, width, branch));
}

at::Tensor Block::attention(const at::Tensor& x) const {
  // [batch, time, 3, heads, width / heads], then three of [batch, heads, time, width / heads].
  auto qkv = qkv_->forward(x).view({x.size(0), x.size(1), 3, heads_, -1}).permute({2, 0, 3, 1, 4});
  auto mixed = at::scaled_dot_product_attention(qkv[0], qkv[1], qkv[2], {}, /*dropout=*/0,
                                                /*is_causal=*/true);
  return project_->forward(mixed.transpose(1, 2).reshape(x.sizes()));
}

at::Tensor Block::forward(const at::Tensor& x) const {
  auto y = x + attention(norm1_->forward(x));
  return y + narrow_->forward(at::gelu(widen_->forward(norm2_->forward(y)), "tanh"));
}

Gpt::Gpt(const ModelOptions& options) : options_(options) {
  auto random = at::detail::createCPUGenerator(options.seed);
  const auto table = [&](std::int64_t rows) {
    return normal({rows, options.width}, kSpread, random);
  };
  embedding_ = register_parameter("embedding", table(kBytes));
  position_ = register_parameter("position", table(options.context));
  for (std::int64_t i = 0; i < options.layers; ++i)
    blocks_.push_back(
        register_module("block" + std::to_string(i), std::make_shared<Block>(options, random)));
  norm_ = register_module("norm", std::make_shared<Norm>(options.width));
}

at::Tensor run_block(const Block& block, const at::Tensor& x) { return block.forward(x); }

at::Tensor Gpt::forward(const at::Tensor& bytes, const RunBlock& run) const {
  auto x = at::embedding(embedding_, bytes) + position_.narrow(0, 0, bytes.size(1));
  for (const auto& block : blocks_) x = run(*block, x);
  return at::linear(norm_->forward(x), embedding_);
}

at::Tensor Gpt::loss(const at::Tensor& bytes, const at::Tensor& next, const RunBlock& run) const {
  return at::cross_entropy_loss(forward(bytes, run).view({-1, kBytes}), next.reshape({-1}));
}

std::vector<torch::nn::Module*> Gpt::blocks() const {
  std::vector<torch::nn::Module*> all;
  for (const auto& block : blocks_) all.push_back(block.get());
  return all;
}

}  // namespace gpt
