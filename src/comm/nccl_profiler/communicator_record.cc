#include "comm/nccl_profiler/communicator_record.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <numeric>
#include <string_view>
#include <utility>

#include "base/format.h"
#include "base/os/environment.h"

namespace lockstep::comm::nccl {
namespace {

constexpr std::size_t kEvents = 1 << 16;  // under way

// The codes of operations are places in these lists. The names are those of Lockstep's own records.
constexpr std::array<std::pair<std::string_view, std::string_view>, 10> kOperations = {
    {{"AllReduce", "all_reduce"},
     {"AllGather", "all_gather"},
     {"ReduceScatter", "reduce_scatter"},
     {"Broadcast", "broadcast"},
     {"Reduce", "reduce"},
     {"AlltoAll", "all_to_all"},
     {"Gather", "gather"},
     {"Scatter", "scatter"},
     {"Send", "send"},
     {"Recv", "recv"}}};
constexpr std::uint8_t kReceive = 9;
constexpr std::string_view kOtherOperation = "other";

struct Type {
  std::string_view nccl, name;
  std::size_t bytes;
};
constexpr std::array kTypes = {Type{"ncclInt8", "int8", 1},
                               Type{"ncclUint8", "uint8", 1},
                               Type{"ncclInt32", "int32", 4},
                               Type{"ncclUint32", "uint32", 4},
                               Type{"ncclInt64", "int64", 8},
                               Type{"ncclUint64", "uint64", 8},
                               Type{"ncclFloat16", "float16", 2},
                               Type{"ncclFloat32", "float32", 4},
                               Type{"ncclFloat64", "float64", 8},
                               Type{"ncclBfloat16", "bfloat16", 2},
                               Type{"ncclFloat8e4m3", "float8_e4m3", 1},
                               Type{"ncclFloat8e5m2", "float8_e5m2", 1}};

const FlightNames& names() {
  static const auto* all = [] {
    static std::vector<std::string_view> operations, types;
    for (const auto& [nccl, own] : kOperations) operations.push_back(own);
    operations.push_back(kOtherOperation);
    for (const Type& type : kTypes) types.push_back(type.name);
    return new FlightNames{operations, types, {}, kReceive};
  }();
  return *all;
}

std::uint8_t operation_code(const char* function) {
  const std::string_view wanted = function == nullptr ? "" : function;
  const auto found =
      std::ranges::find(kOperations, wanted, &std::pair<std::string_view, std::string_view>::first);
  return static_cast<std::uint8_t>(found - kOperations.begin());  // at the end: kOtherOperation
}

void set_type(const char* nccl, std::size_t count, FlightCall& call) {
  const auto found =
      std::ranges::find(kTypes, std::string_view(nccl == nullptr ? "" : nccl), &Type::nccl);
  call.bytes = count;
  if (found == kTypes.end()) return;
  call.bytes = count * found->bytes;
  call.type = static_cast<std::uint8_t>(found - kTypes.begin());
}

int number_in(const Environment& environment, const char* name) {
  const auto found = environment.find(name);
  int number = -1;
  if (found != environment.end())
    std::from_chars(found->second.data(), found->second.data() + found->second.size(), number);
  return number;
}

// NCCL does not tell which ranks of the run a communicator has. One with all of them numbers them
// alike.
FlightIdentity identity_of(const CommunicatorIdentity& own) {
  const Environment environment = own_environment();
  const bool has_all = own.size == number_in(environment, "WORLD_SIZE") &&
                       own.rank == number_in(environment, "RANK");
  FlightIdentity identity;
  identity.rank = own.rank;
  identity.members.ranks.resize(static_cast<std::size_t>(own.size));
  std::iota(identity.members.ranks.begin(), identity.members.ranks.end(), 0);
  identity.members.name =
      format("NCCL's communicator {}", own.name.empty() ? format("{:x}", own.id) : own.name);
  if (!has_all) identity.members.name += ", ranks numbered within it";
  identity.group = format("nccl-{:016x}", own.id);
  if (const auto host = environment.find("LOCKSTEP_HOST_ID"); host != environment.end())
    identity.host = host->second;
  return identity;
}

}  // namespace

CommunicatorRecord::CommunicatorRecord(const CommunicatorIdentity& identity)
    : recorder_(identity_of(identity), names()) {}

Event* CommunicatorRecord::take() {
  if (free_.empty()) {
    if (events_.size() == kEvents) return nullptr;
    events_.push_back(std::make_unique<Event>());
    free_.push_back(events_.back().get());
  }
  Event* const event = free_.back();
  free_.pop_back();
  *event = Event{};
  event->record = this;
  event->in_use = true;
  event->users = 1;
  return event;
}

void CommunicatorRecord::release(Event& event) {
  if (--event.users > 0) return;
  event.in_use = false;
  free_.push_back(&event);
}

Event* CommunicatorRecord::start_operation(const FlightCall& call, int parts) {
  Event* const event = take();
  if (event == nullptr) return nullptr;
  event->ticket = recorder_.record_queued(call);
  event->parts_left = parts;
  event->users += parts;
  return event;
}

Event* CommunicatorRecord::start_part(Event& operation) {
  Event* const part = take();
  if (part == nullptr) return nullptr;
  part->operation = &operation;
  if (!std::exchange(operation.started, true)) recorder_.mark_started(operation.ticket);
  return part;
}

void CommunicatorRecord::end_part(Event& operation) {
  if (--operation.parts_left == 0)
    recorder_.mark_ended(std::exchange(operation.ticket, {}), true, 0);
  release(operation);
}

Event* CommunicatorRecord::start(const EventDescription& description) {
  const Lock lock(mutex_);
  FlightCall call;
  switch (description.type) {
    case kCollectiveEvent: {
      const auto& collective = description.collective;
      call.sequence = collectives_++;
      call.operation = operation_code(collective.function);
      set_type(collective.type, collective.count, call);
      return start_operation(call, collective.channels);
    }
    case kPeerEvent: {
      const auto& peer = description.peer;
      call.operation = operation_code(peer.function);
      call.peer = peer.peer;
      set_type(peer.type, peer.count, call);
      return start_operation(call, peer.channels);
    }
    case kKernelChannelEvent: {
      auto* const operation = static_cast<Event*>(description.parent);
      return operation == nullptr || !operation->in_use ? nullptr : start_part(*operation);
    }
    default:
      return nullptr;
  }
}

void CommunicatorRecord::stop(Event& event) {
  const Lock lock(mutex_);
  if (event.operation != nullptr)
    end_part(*event.operation);
  else if (event.parts_left == 0)  // it has none, or all have ended already
    recorder_.mark_ended(std::exchange(event.ticket, {}), true, 0);
  release(event);
}

bool CommunicatorRecord::is_idle() const {
  const Lock lock(mutex_);
  return free_.size() == events_.size();
}

}  // namespace lockstep::comm::nccl
