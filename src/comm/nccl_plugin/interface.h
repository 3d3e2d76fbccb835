// The interface between NCCL and a network plugin, versions 7 to 12, declared here from its
// documentation: NCCL finds a table of functions by its symbol, ncclNetPlugin_vN. The assertions
// hold the layout that NCCL's binaries expect. docs/design/nccl-plugin.md has the versions of NCCL.
#pragma once

#include <cstddef>
#include <cstdint>

namespace lockstep::comm::nccl {

// The result of every function.
enum class Status : int {
  success = 0,
  system_error = 2,
  internal_error = 3,
  invalid_usage = 5,
  remote_error = 6,
};

enum class LogLevel : int { warn = 2, info = 3 };
inline constexpr unsigned long kLogInitAndNetwork = 1 | 16;  // NCCL_DEBUG_SUBSYS=INIT,NET

using Logger = void (*)(LogLevel level, unsigned long subsystems, const char* file, int line,
                        const char* format, ...);
using ProfilerCallback = Status (*)(void** event, int type, void* parent, std::int64_t plugin,
                                    void* data);

inline constexpr int kHostMemory = 1;             // a bit of pointer_support, and a memory type
inline constexpr int kCudaMemory = 2;             // the same
inline constexpr int kDmaBufSupport = 4;          // a bit of pointer_support
inline constexpr int kDeviceOnHost = 0;           // net_device_type: no offload to GPU kernels
inline constexpr std::size_t kHandleBytes = 128;  // of listen()
inline constexpr int kRequestsInFlight = 32;      // that a connection must support
inline constexpr std::int16_t kUnknownId = -1;

struct Properties7 {
  char* name;
  char* pci_path;
  std::uint64_t guid;
  int pointer_support;
  int speed;  // in Mbit/s
  int port;
  float latency;  // in microseconds
  int max_connections;
  int max_receives;  // of a group
  int net_device_type;
  int net_device_version;
};
static_assert(sizeof(Properties7) == 56 && offsetof(Properties7, latency) == 36 &&
              offsetof(Properties7, net_device_version) == 52);

struct Properties8 {
  char* name;
  char* pci_path;
  std::uint64_t guid;
  int pointer_support;
  int registration_is_global;
  int speed;
  int port;
  float latency;
  int max_connections;
  int max_receives;
  int net_device_type;
  int net_device_version;
};
static_assert(sizeof(Properties8) == 64 && offsetof(Properties8, latency) == 40 &&
              offsetof(Properties8, net_device_version) == 56);

template <int kMost>
struct PhysicalDevices {
  int count;
  int devices[kMost];
};

// Versions 9 and 10.
struct Properties9 {
  char* name;
  char* pci_path;
  std::uint64_t guid;
  int pointer_support;
  int registration_is_global;
  int force_flush;
  int speed;
  int port;
  float latency;
  int max_connections;
  int max_receives;
  int net_device_type;
  int net_device_version;
  PhysicalDevices<4> physical;
  std::size_t max_point_to_point_bytes;
  std::size_t max_collective_bytes;
};
static_assert(sizeof(Properties9) == 104 && offsetof(Properties9, latency) == 44 &&
              offsetof(Properties9, physical) == 64 &&
              offsetof(Properties9, max_point_to_point_bytes) == 88);

struct Properties11 : Properties9 {
  int max_multi_request;
};
static_assert(sizeof(Properties11) == 112);

struct Properties12 {
  char* name;
  char* pci_path;
  std::uint64_t guid;
  int pointer_support;
  int registration_is_global;
  int force_flush;
  int speed;
  int port;
  float latency;
  int max_connections;
  int max_receives;
  int net_device_type;
  int net_device_version;
  PhysicalDevices<8> physical;
  std::size_t max_point_to_point_bytes;
  std::size_t max_collective_bytes;
  int max_multi_request;
  std::int16_t rail;
  std::int16_t plane;
};
static_assert(sizeof(Properties12) == 128 && offsetof(Properties12, physical) == 64 &&
              offsetof(Properties12, max_point_to_point_bytes) == 104 &&
              offsetof(Properties12, rail) == 124 && offsetof(Properties12, plane) == 126);

using RegisterBytes7 = Status (*)(void* connection, void* data, int size, int type, void** memory);
using RegisterBytes = Status (*)(void* connection, void* data, std::size_t size, int type,
                                 void** memory);
using RegisterDmaBuf = Status (*)(void* connection, void* data, std::size_t size, int type,
                                  std::uint64_t offset, int fd, void** memory);
using Flush = Status (*)(void* connection, int count, void** data, int* sizes, void** memories,
                         void** request);

// The functions that follow accept() in every table.
template <class Register, class Send, class Receive>
struct Transfers {
  Register register_memory;         // regMr
  RegisterDmaBuf register_dma_buf;  // regMrDmaBuf
  Status (*deregister)(void* connection, void* memory);
  Send send;        // isend
  Receive receive;  // irecv
  Flush flush;      // iflush
  Status (*test)(void* request, int* done, int* sizes);
  Status (*close_send)(void* connection);
  Status (*close_receive)(void* connection);
  Status (*close_listen)(void* listener);
  Status (*get_device_memory)(void* connection, void* memory, void** device_memory);
  Status (*receive_consumed)(void* connection, int count, void* request);
};

using Send7 = Status (*)(void* connection, void* data, int size, int tag, void* memory,
                         void** request);
using Receive7 = Status (*)(void* connection, int count, void** data, int* sizes, int* tags,
                            void** memories, void** request);
using Send9 = Status (*)(void* connection, void* data, std::size_t size, int tag, void* memory,
                         void** request);
using Receive9 = Status (*)(void* connection, int count, void** data, std::size_t* sizes, int* tags,
                            void** memories, void** request);
using Send10 = Status (*)(void* connection, void* data, std::size_t size, int tag, void* memory,
                          void* profiled, void** request);
using Receive10 = Status (*)(void* connection, int count, void** data, std::size_t* sizes,
                             int* tags, void** memories, void** profiled, void** request);
using MakeDevice = Status (*)(int* device, void* physical);  // makeVDevice; null: not supported

struct CommunicatorConfig {
  int traffic_class;
};

template <class Properties, class Register, class Send, class Receive>
struct TableWithoutContext {
  const char* name;
  Status (*init)(Logger logger);
  Status (*devices)(int* count);
  Status (*get_properties)(int device, Properties* properties);
  Status (*listen)(int device, void* handle, void** listener);
  Status (*connect)(int device, void* handle, void** connection, void** device_connection);
  Status (*accept)(void* listener, void** connection, void** device_connection);
  Transfers<Register, Send, Receive> transfers;
};

using Table7 = TableWithoutContext<Properties7, RegisterBytes7, Send7, Receive7>;
using Table8 = TableWithoutContext<Properties8, RegisterBytes, Send7, Receive7>;
static_assert(sizeof(Table7) == 152 && offsetof(Table7, transfers) == 56 && sizeof(Table8) == 152);

struct Table9 : TableWithoutContext<Properties9, RegisterBytes, Send9, Receive9> {
  MakeDevice make_device;
};
static_assert(sizeof(Table9) == 160);

struct Table10 {
  const char* name;
  Status (*init)(Logger logger, ProfilerCallback profiler);
  Status (*devices)(int* count);
  Status (*get_properties)(int device, Properties9* properties);
  Status (*listen)(int device, void* handle, void** listener);
  Status (*connect)(int device, CommunicatorConfig* config, void* handle, void** connection,
                    void** device_connection);
  Status (*accept)(void* listener, void** connection, void** device_connection);
  Transfers<RegisterBytes, Send10, Receive10> transfers;
  MakeDevice make_device;
};
static_assert(sizeof(Table10) == 160 && offsetof(Table10, transfers) == 56);

template <class Properties>
struct TableWithContext {
  const char* name;
  Status (*init)(void** context, std::uint64_t communicator, CommunicatorConfig* config,
                 Logger logger, ProfilerCallback profiler);
  Status (*devices)(int* count);
  Status (*get_properties)(int device, Properties* properties);
  Status (*listen)(void* context, int device, void* handle, void** listener);
  Status (*connect)(void* context, int device, void* handle, void** connection,
                    void** device_connection);
  Status (*accept)(void* listener, void** connection, void** device_connection);
  Transfers<RegisterBytes, Send10, Receive10> transfers;
  MakeDevice make_device;
  Status (*finalize)(void* context);
  Status (*set_attributes)(void* context, void* attributes);  // setNetAttr
};
using Table11 = TableWithContext<Properties11>;
using Table12 = TableWithContext<Properties12>;
static_assert(sizeof(Table11) == 176 && sizeof(Table12) == 176 &&
              offsetof(Table12, transfers) == 56 && offsetof(Table12, make_device) == 152 &&
              offsetof(Table12, finalize) == 160 && offsetof(Table12, set_attributes) == 168);

}  // namespace lockstep::comm::nccl
