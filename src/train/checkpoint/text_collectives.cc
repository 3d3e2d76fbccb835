#include "train/checkpoint/text_collectives.h"

#include <cstdint>
#include <cstring>
#include <utility>

#include <ATen/ops/zeros.h>

#include "base/format.h"

namespace lockstep::train {
namespace {

constexpr std::int64_t kWordBytes = sizeof(std::int64_t);
// The limit for all ranks together. A layout of 10,000 tensors takes 2 MB.
constexpr std::int64_t kGatheredMax = std::int64_t{4} << 30;

// '+' and the text, or '-', the code as a letter, and the message.
std::string encoded(const Result<std::string>& result) {
  if (result) return "+" + *result;
  const auto code = static_cast<char>('a' + static_cast<int>(result.error().code));
  return format("-{}{}", code, result.error().message);
}

Result<std::string> decoded(std::string_view message) {
  if (message.starts_with('+')) return std::string(message.substr(1));
  const auto last = 'a' + static_cast<int>(Code::internal);
  if (message.size() < 2 || message[0] != '-' || message[1] < 'a' || message[1] > last)
    return Error{Code::corrupt, "a rank said something that is not understood"};
  return Error{static_cast<Code>(message[1] - 'a'), std::string(message.substr(2))};
}

at::Tensor new_text_tensor(std::int64_t bytes) {
  return at::zeros({(bytes + kWordBytes - 1) / kWordBytes}, at::kLong);
}

char* bytes_in(const at::Tensor& tensor) { return static_cast<char*>(tensor.mutable_data_ptr()); }

// Sizes by rank. A sum in which every other rank has a zero is a gather that every backend
// supports.
Result<std::vector<std::int64_t>> gather_sizes(Comm& group, std::size_t mine,
                                               std::string_view label) {
  auto sizes = at::zeros({group.size()}, at::kLong);
  auto* values = sizes.mutable_data_ptr<std::int64_t>();
  values[group.rank()] = static_cast<std::int64_t>(mine);
  TRY(group.all_reduce(sizes, ReduceOp::sum, label).wait());
  return std::vector<std::int64_t>(values, values + group.size());
}

}  // namespace

Result<std::vector<std::string>> all_gather_text(Comm& group, const Result<std::string>& mine,
                                                 std::string_view label) {
  const auto message = encoded(mine);
  const auto sizes = TRY(gather_sizes(group, message.size(), label));
  std::int64_t before = 0, total = 0;
  for (int rank = 0; rank < group.size(); ++rank) {
    if (rank == group.rank()) before = total;
    total += sizes[static_cast<std::size_t>(rank)];
  }
  if (total > kGatheredMax)
    return Error{Code::invalid, format("{}: {} bytes are too many to tell", label, total)};
  const auto all = new_text_tensor(total);
  std::memcpy(bytes_in(all) + before, message.data(), message.size());
  TRY(group.all_reduce(all, ReduceOp::sum, label).wait());

  std::vector<std::string> texts;
  std::string_view rest(bytes_in(all), static_cast<std::size_t>(total));
  for (std::size_t rank = 0; rank < sizes.size(); ++rank) {
    const auto size = static_cast<std::size_t>(sizes[rank]);
    auto one = decoded(rest.substr(0, size));
    if (!one && sizes.size() == 1) return std::move(one).error();
    if (!one) return std::move(one).error().with_context(format("rank {}", rank));
    texts.push_back(std::move(*one));
    rest.remove_prefix(size);
  }
  return texts;
}

Result<std::string> broadcast_text(Comm& group, const Result<std::string>& mine,
                                   std::string_view label) {
  const auto message = group.rank() == 0 ? encoded(mine) : std::string();
  const auto size = TRY(gather_sizes(group, message.size(), label)).front();
  if (size > kGatheredMax)
    return Error{Code::invalid, format("{}: {} bytes are too many to tell", label, size)};
  const auto tensor = new_text_tensor(size);
  std::memcpy(bytes_in(tensor), message.data(), message.size());
  TRY(group.broadcast(tensor, 0, label).wait());
  return decoded({bytes_in(tensor), static_cast<std::size_t>(size)});
}

}  // namespace lockstep::train
