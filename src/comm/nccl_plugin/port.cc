#include "comm/nccl_plugin/port.h"

#include "comm/nccl_plugin/connection.h"
#include "comm/nccl_plugin/request.h"

namespace lockstep::comm::nccl {
namespace {

constexpr std::size_t kCompletionsAtOnce = 16;

void end(const Completion& completion) {
  if (completion.operation == nullptr) return;
  auto& operation = *completion.operation;
  auto& request = *operation.request;
  if (operation.ended) return;
  operation.ended = true;
  --request.unended;
  const auto i = static_cast<std::size_t>(operation.index);
  // A completion has no size for a send.
  request.bytes[i] = request.sends ? request.messages[i].bytes : completion.bytes;
  if (completion.failure == nullptr && request.connection != nullptr && !request.flushes)
    request.connection->count_ended();
  if (completion.failure != nullptr && !request.failure)
    request.failure = Error{completion.code, completion.failure};
}

}  // namespace

Port::Port(std::unique_ptr<TaggedEndpoint> endpoint, std::string provider,
           std::size_t message_limit)
    : provider_(std::move(provider)),
      message_limit_(message_limit),
      endpoint_(std::move(endpoint)) {}

Port::~Port() = default;

Result<void> Port::progress() {
  std::array<Completion, kCompletionsAtOnce> ended;
  const auto count = TRY(endpoint_->poll(ended));
  for (std::size_t i = 0; i < count; ++i) end(ended[i]);
  if (!kept_.empty())
    std::erase_if(kept_, [](const auto& request) { return !request->has_posted(); });
  return {};
}

Result<PeerAddress> Port::peer(const std::string& address) {
  if (const auto found = peers_.find(address); found != peers_.end()) return found->second;
  const auto added = TRY(endpoint_->add_peer(address));
  peers_.emplace(address, added);
  return added;
}

void Port::keep(std::unique_ptr<Request> request) { kept_.push_back(std::move(request)); }

}  // namespace lockstep::comm::nccl
