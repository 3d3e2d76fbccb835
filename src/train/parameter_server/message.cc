#include "train/parameter_server/message.h"

#include <cstddef>
#include <cstring>
#include <string_view>
#include <type_traits>

#include <ATen/ops/empty.h>

#include "base/format.h"

namespace lockstep::train {
namespace {

static_assert(std::is_trivially_copyable_v<Message>);

constexpr std::int64_t kRatesMax = 1 << 20;  // more would be a fault of the sender

Result<void> send_bytes(Comm& group, int to, const void* data, std::size_t bytes,
                        std::string_view label) {
  auto memory = at::empty({static_cast<std::int64_t>(bytes)}, at::kByte);
  std::memcpy(memory.mutable_data_ptr(), data, bytes);
  return group.send(memory, to, label).wait();
}

Result<void> receive_bytes(Comm& group, int from, void* data, std::size_t bytes,
                           std::string_view label) {
  auto memory = at::empty({static_cast<std::int64_t>(bytes)}, at::kByte);
  TRY(group.receive(memory, from, label).wait());
  std::memcpy(data, memory.const_data_ptr(), bytes);
  return {};
}

}  // namespace

Result<void> send(Comm& group, int to, const Message& message) {
  return send_bytes(group, to, &message, sizeof message, "a message");
}

Result<Message> receive(Comm& group, int from) {
  Message message;
  TRY(receive_bytes(group, from, &message, sizeof message, "a message"));
  return message;
}

Result<void> send_rates(Comm& group, int to, const std::vector<double>& rates) {
  if (rates.empty()) return {};
  return send_bytes(group, to, rates.data(), rates.size() * sizeof(double), "learning rates");
}

Result<std::vector<double>> receive_rates(Comm& group, int from, std::int64_t count) {
  if (count < 0 || count > kRatesMax)
    return Error{Code::corrupt, format("a worker sent {} learning rates", count)};
  std::vector<double> rates(static_cast<std::size_t>(count));
  if (!rates.empty())
    TRY(receive_bytes(group, from, rates.data(), rates.size() * sizeof(double), "learning rates"));
  return rates;
}

}  // namespace lockstep::train
