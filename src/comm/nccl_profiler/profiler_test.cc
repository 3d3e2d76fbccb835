// The profiler as NCCL drives it, and the records that it leaves.
#include <array>
#include <cstdlib>
#include <filesystem>
#include <string>

#include <dlfcn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/format.h"
#include "base/temporary_folder_for_test.h"
#include "comm/flight/folder.h"
#include "comm/nccl_profiler/interface.h"

namespace lockstep::comm::nccl {
namespace {

using ::testing::HasSubstr;

class NcclProfiler : public testing::TestWithParam<int> {
 protected:
  NcclProfiler() {
    ::setenv("LOCKSTEP_FLIGHT_DIR", folder_.path().c_str(), 1);
    ::setenv("LOCKSTEP_HOST_ID", "gpu-7", 1);
    ::setenv("RANK", "1", 1);
    ::setenv("WORLD_SIZE", "4", 1);
    library_ = ::dlopen(LOCKSTEP_NCCL_PLUGIN, RTLD_NOW | RTLD_LOCAL);
    if (library_ != nullptr)
      table_ = static_cast<const ProfilerTable*>(
          ::dlsym(library_, format("ncclProfiler_v{}", GetParam()).c_str()));
  }
  ~NcclProfiler() override {
    for (const char* name : {"LOCKSTEP_FLIGHT_DIR", "LOCKSTEP_HOST_ID", "RANK", "WORLD_SIZE"})
      ::unsetenv(name);
  }

  void* begin(std::uint64_t id, int size, int rank, const char* name) {
    void* context = nullptr;
    int events = 0;
    EXPECT_EQ(table_->init(&context, id, &events, name, 2, size, rank, nullptr), Status::success);
    EXPECT_EQ(events, 1 << 1 | 1 << 2 | 1 << 6);
    return context;
  }
  void* collective(void* context, const char* function, std::size_t count, int channels) {
    EventDescription description{};
    description.type = kCollectiveEvent;
    description.collective.function = function;
    description.collective.type = "ncclFloat32";
    description.collective.count = count;
    description.collective.channels = static_cast<std::uint8_t>(channels);
    return start(context, description);
  }
  void* part(void* context, void* operation) {
    EventDescription description{};
    description.type = kKernelChannelEvent;
    description.parent = operation;
    return start(context, description);
  }
  void* start(void* context, EventDescription& description) {
    void* event = &description;
    EXPECT_EQ(table_->start(context, &event, &description), Status::success);
    return event;
  }
  void stop(void* event) { EXPECT_EQ(table_->stop(event), Status::success); }
  FlightLog only_log() {
    auto found = read_flight_folder(folder_.path());
    EXPECT_TRUE(found.has_value());
    EXPECT_EQ(found->logs.size(), 1u);
    return found->logs.at(0);
  }

  const TemporaryFolder folder_;
  void* library_ = nullptr;
  const ProfilerTable* table_ = nullptr;
};
INSTANTIATE_TEST_SUITE_P(Versions, NcclProfiler, testing::Values(5, 6));

TEST_P(NcclProfiler, RecordsOperationsFromTheirQueueToTheLastChannel) {
  ASSERT_NE(table_, nullptr);
  void* const context = begin(0xabc, 4, 1, "");
  void* const done = collective(context, "AllReduce", 1000, 2);
  stop(done);  // it is enqueued
  std::array parts = {part(context, done), part(context, done)};
  void* const queued = collective(context, "AllGather", 10, 1);
  stop(queued);
  void* const runs = collective(context, "ReduceScatter", 20, 2);
  stop(runs);
  for (void* one : parts) stop(one);
  stop(part(context, runs));  // one of its two

  const FlightLog log = only_log();
  EXPECT_EQ(log.rank, 1);
  EXPECT_EQ(log.size, 4);
  EXPECT_EQ(log.host, "gpu-7");
  EXPECT_EQ(log.group, "nccl-0000000000000abc");
  ASSERT_EQ(log.operations.size(), 3u);
  EXPECT_EQ(log.operations[0].name, "all_reduce");
  EXPECT_EQ(log.operations[0].type, "float32");
  EXPECT_EQ(log.operations[0].bytes, Bytes(4000));
  EXPECT_EQ(log.operations[0].state, FlightState::done);
  EXPECT_EQ(log.operations[1].state, FlightState::queued);
  EXPECT_EQ(log.operations[1].sequence, 1u);
  EXPECT_EQ(log.operations[2].state, FlightState::started);
  EXPECT_EQ(table_->finalize(context), Status::success);
}

TEST_P(NcclProfiler, RecordsSendsAndReceivesWithTheirPeer) {
  ASSERT_NE(table_, nullptr);
  void* const context = begin(7, 2, 0, "shard");
  EventDescription description{};
  description.type = kPeerEvent;
  description.peer.function = "Recv";
  description.peer.type = "ncclBfloat16";
  description.peer.count = 8;
  description.peer.peer = 1;
  description.peer.channels = 1;
  stop(start(context, description));
  const FlightLog log = only_log();
  EXPECT_THAT(log.name, HasSubstr("shard, ranks numbered within it"));
  ASSERT_EQ(log.operations.size(), 1u);
  EXPECT_TRUE(log.operations[0].receives);
  EXPECT_EQ(log.operations[0].peer, 1);
  EXPECT_EQ(log.operations[0].bytes, Bytes(16));
}

TEST_P(NcclProfiler, KeepsTheRecordForPartsThatEndAfterTheCommunicator) {
  ASSERT_NE(table_, nullptr);
  void* const context = begin(9, 4, 1, "");
  void* const runs = collective(context, "AllReduce", 20, 1);
  void* const only_part = part(context, runs);
  EXPECT_EQ(table_->finalize(context), Status::success);
  stop(only_part);
  stop(runs);
  ASSERT_EQ(only_log().operations.size(), 1u);
  EXPECT_EQ(only_log().operations[0].state, FlightState::done);
}

TEST_P(NcclProfiler, IgnoresEventsThatItDidNotAskFor) {
  ASSERT_NE(table_, nullptr);
  void* const context = begin(8, 2, 0, nullptr);
  EventDescription description{};
  description.type = 1 << 3;
  EXPECT_EQ(start(context, description), nullptr);
  EXPECT_EQ(part(context, nullptr), nullptr);
  stop(nullptr);
  EXPECT_EQ(table_->record_state(nullptr, 3, nullptr), Status::success);
  EXPECT_TRUE(only_log().operations.empty());
}

}  // namespace
}  // namespace lockstep::comm::nccl
