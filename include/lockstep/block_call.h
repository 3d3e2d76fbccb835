// How a model runs a block: with its tensor inputs as a list, so that it can act on them.
#pragma once

#include <functional>
#include <tuple>
#include <vector>

#include <ATen/core/Tensor.h>

namespace lockstep {

// A block's forward; its tensor arguments replace the block's tensor inputs.
using BlockForward = std::function<at::Tensor(const std::vector<at::Tensor>& inputs)>;

struct BlockCall {
  std::vector<at::Tensor> inputs;  // the arguments that are defined tensors
  BlockForward forward;
};

namespace block_call_detail {

inline void collect(std::vector<at::Tensor>& tensors, const at::Tensor& input) {
  if (input.defined()) tensors.push_back(input);
}
template <class Other>
void collect(std::vector<at::Tensor>&, const Other&) {}

inline void replace(at::Tensor& input, std::vector<at::Tensor>::const_iterator& next) {
  if (input.defined()) input = *next++;
}
template <class Other>
void replace(Other&, std::vector<at::Tensor>::const_iterator&) {}

}  // namespace block_call_detail

// block.forward(inputs...). The block must live as long as the result, which copies the inputs.
template <class Block, class... Inputs>
BlockCall block_call(Block& block, const Inputs&... inputs) {
  BlockCall call;
  (block_call_detail::collect(call.inputs, inputs), ...);
  call.forward =
      [&block, arguments = std::tuple<Inputs...>(inputs...)](const std::vector<at::Tensor>& given) {
        auto next = given.begin();
        return std::apply(
            [&](auto... each) {
              (block_call_detail::replace(each, next), ...);
              return block.forward(each...);
            },
            arguments);
      };
  return call;
}

}  // namespace lockstep
