#include "comm/nccl_plugin/connection.h"

#include <algorithm>
#include <limits>

#include <sched.h>

#include "base/format.h"
#include "comm/nccl_plugin/interface.h"

namespace lockstep::comm::nccl {
namespace {

constexpr int kTagLimit = 1 << 20;
constexpr std::uint64_t kNumberMask = (std::uint64_t{1} << 20) - 1;

std::uint64_t make_tag(std::uint32_t connection, int tag, std::uint64_t number) {
  return (connection & kNumberMask) << 40 | static_cast<std::uint64_t>(tag) << 20 |
         (number & kNumberMask);
}

const Registration* registration_of(const Buffer& buffer) {
  return buffer.region == nullptr ? nullptr : buffer.region->registration.get();
}

void prepare(Request& request, int index, const Message& message) {
  const auto i = static_cast<std::size_t>(index);
  request.operations[i].request = &request;
  request.operations[i].index = index;
  request.operations[i].posted = false;
  request.operations[i].ended = false;
  request.messages[i] = message;
}

int as_int(std::size_t bytes) {
  return static_cast<int>(std::min<std::size_t>(bytes, std::numeric_limits<int>::max()));
}

}  // namespace

Connection::Connection(std::shared_ptr<Port> port, std::unique_ptr<PeerWatch> watch,
                       std::uint32_t id, std::string peer)
    : port_(std::move(port)), watch_(std::move(watch)), id_(id), peer_(std::move(peer)) {}

Connection::~Connection() = default;

Request* Connection::free_request() {
  if (free_.empty()) {
    if (requests_.size() == request_limit_) return nullptr;
    requests_.push_back(std::make_unique<Request>());
    free_.reserve(requests_.size());
    free_.push_back(requests_.back().get());
  }
  auto* const request = free_.back();
  request->connection = this;
  return request;
}

void Connection::take(Request& request, std::size_t count) {
  free_.pop_back();
  request.in_use = true;
  request.count = static_cast<int>(count);
  request.unended = request.count;
  request.flushes = false;
  request.failure.reset();
}

void Connection::release(Request& request) {
  request.in_use = false;
  free_.push_back(&request);
}

Connection::TagCount& Connection::counter_of(int tag) {
  const auto found = std::ranges::find(tags_, tag, &TagCount::tag);
  if (found != tags_.end()) return *found;
  return tags_.emplace_back(TagCount{tag, 0});
}

Result<std::uint64_t> Connection::next_tag(int tag) {
  if (tag < 0 || tag >= kTagLimit)
    return Error{Code::invalid, format("the tag {} is not in 0 to {}", tag, kTagLimit - 1)};
  return make_tag(id_, tag, counter_of(tag).count);
}

void Connection::count_message(int tag) { ++counter_of(tag).count; }

Result<void> Connection::fail(Error error) {
  if (!failure_)
    failure_ = Error{error.code, format("the connection with {}: {}", peer_, error.message)};
  return *failure_;
}

Result<void> Connection::check_usable() {
  return failure_ ? Result<void>(*failure_) : Result<void>();
}

Result<void> Connection::check_peer() {
  TRY(check_usable());
  if (auto alive = watch_->check(); !alive) {
    TRY(port_->progress());  // the peer may have sent it before it died
    return fail(alive.error());
  }
  if (!watch_->messages_at_close()) return {};
  if (may_still_end() && watch_->time_since_close() < kArrivalBound) return {};
  return fail({Code::peer_lost, "the peer closed the connection before this message"});
}

Result<bool> Connection::test(Request& request, int* sizes) {
  const Lock lock(port_->mutex());
  if (!request.in_use) return Error{Code::invalid, "a request that has ended was tested"};
  if (request.unended > 0) {
    TRY(post_waiting(request));
    TRY(port_->progress());
  }
  if (request.unended > 0 && !request.failure) {
    const auto alive = check_peer();
    if (!alive && request.unended > 0) return alive.error();
  }
  if (request.failure) {
    TRY(fail(*request.failure));
  }
  if (request.unended > 0) return false;
  for (int i = 0; sizes != nullptr && i < request.count; ++i)
    sizes[i] = as_int(request.bytes[static_cast<std::size_t>(i)]);
  release(request);
  return true;
}

void Connection::close() {
  const Lock lock(port_->mutex());
  const auto has_posted = [](const auto& request) { return request->has_posted(); };
  for (const auto& request : requests_)
    for (auto& operation : request->operations)
      if (operation.posted && !operation.ended) port_->endpoint().cancel(operation);
  const auto deadline = Deadline::after(kCloseBound);
  while (std::ranges::any_of(requests_, has_posted) && !deadline.passed())
    if (!port_->progress() || std::ranges::any_of(requests_, has_posted)) ::sched_yield();
  for (auto& request : requests_) {
    request->connection = nullptr;
    if (request->has_posted()) port_->keep(std::move(request));
  }
  requests_.clear();
  watch_->close(ended_messages_);
}

SendConnection::SendConnection(std::shared_ptr<Port> port, std::unique_ptr<PeerWatch> watch,
                               std::uint32_t id, std::string peer, PeerAddress address)
    : Connection(std::move(port), std::move(watch), id, std::move(peer)), address_(address) {
  request_limit_ = kRequestsInFlight * kGroupLimit;
}

Result<Request*> SendConnection::send(const Buffer& buffer) {
  const Lock lock(port_->mutex());
  TRY(check_usable());
  if (buffer.bytes > port_->message_limit())
    return Error{Code::invalid, format("a message of {} bytes is longer than the {} that {} sends",
                                       buffer.bytes, port_->message_limit(), port_->provider())};
  auto* const request = free_request();
  if (request == nullptr) return nullptr;
  const auto tag = TRY(next_tag(buffer.tag));
  prepare(*request, 0, {tag, buffer.data, buffer.bytes, registration_of(buffer)});
  const auto post = [&] {
    return port_->endpoint().send(address_, request->messages[0], request->operations[0]);
  };
  auto posted = TRY(post());
  if (posted == Posted::busy) {
    TRY(port_->progress());
    posted = TRY(post());
  }
  if (posted == Posted::busy) {
    TRY(check_peer());  // for a provider that is busy with connecting to it
    return nullptr;
  }
  take(*request, 1);
  request->sends = true;
  request->operations[0].posted = true;
  count_message(buffer.tag);
  return request;
}

// The receiver may have the message, and our provider not yet its acknowledgement.
bool SendConnection::may_still_end() const { return true; }

ReceiveConnection::ReceiveConnection(std::shared_ptr<Port> port, std::unique_ptr<PeerWatch> watch,
                                     std::uint32_t id, std::string peer)
    : Connection(std::move(port), std::move(watch), id, std::move(peer)) {
  request_limit_ = kRequestsInFlight;
}

Result<Request*> ReceiveConnection::receive(std::span<const Buffer> buffers) {
  const Lock lock(port_->mutex());
  TRY(check_usable());
  if (buffers.empty() || buffers.size() > kGroupLimit)
    return Error{Code::invalid,
                 format("a receive of {} buffers, not of 1 to {}", buffers.size(), kGroupLimit)};
  auto* const request = free_request();
  if (request == nullptr) return nullptr;
  for (std::size_t i = 0; i < buffers.size(); ++i) {
    const auto& buffer = buffers[i];
    const auto tag = TRY(next_tag(buffer.tag));
    count_message(buffer.tag);
    prepare(*request, static_cast<int>(i),
            {tag, buffer.data, buffer.bytes, registration_of(buffer)});
  }
  take(*request, buffers.size());
  TRY(post_waiting(*request));
  return request;
}

Result<Request*> ReceiveConnection::flush(const Buffer& buffer) {
  const Lock lock(port_->mutex());
  TRY(check_usable());
  auto* const request = free_request();
  if (request == nullptr) return nullptr;
  prepare(*request, 0, {0, buffer.data, 0, registration_of(buffer)});
  const auto posted =
      TRY(port_->endpoint().flush(*registration_of(buffer), buffer.data, request->operations[0]));
  if (posted == Posted::busy) {
    TRY(port_->progress());
    return nullptr;
  }
  take(*request, 1);
  request->flushes = true;
  request->operations[0].posted = true;
  return request;
}

Result<void> ReceiveConnection::post_waiting(Request& request) {
  for (int i = 0; i < request.count; ++i) {
    auto& operation = request.operations[static_cast<std::size_t>(i)];
    if (operation.posted) continue;
    const auto posted =
        TRY(port_->endpoint().receive(request.messages[static_cast<std::size_t>(i)], operation));
    if (posted == Posted::busy) return {};
    operation.posted = true;
  }
  return {};
}

bool ReceiveConnection::may_still_end() const {
  return ended_messages_ < *watch_->messages_at_close();
}

}  // namespace lockstep::comm::nccl
