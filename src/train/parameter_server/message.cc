#include "train/parameter_server/message.h"

#include <algorithm>
#include <cstring>
#include <type_traits>

#include <ATen/ops/empty.h>

namespace lockstep::train {
namespace {

static_assert(std::is_trivially_copyable_v<Message>);

at::Tensor message_memory() {
  return at::empty({static_cast<std::int64_t>(sizeof(Message))}, at::kByte);
}

}  // namespace

Result<void> send(Comm& group, int to, const Message& message) {
  auto memory = message_memory();
  std::memcpy(memory.mutable_data_ptr(), &message, sizeof message);
  return group.send(memory, to, "a message").wait();
}

Result<Message> receive(Comm& group, int from) {
  auto memory = message_memory();
  TRY(group.receive(memory, from, "a message").wait());
  Message message;
  std::memcpy(&message, memory.const_data_ptr(), sizeof message);
  message.rate_count = std::clamp<std::int64_t>(message.rate_count, 0, Message::kRatesMax);
  return message;
}

}  // namespace lockstep::train
