#include "comm/nccl_plugin/tables.h"

#include <array>
#include <cstring>
#include <span>

namespace lockstep::comm::nccl {

Status status_of(const Error& error) {
  switch (error.code) {
    case Code::peer_lost:
      return Status::remote_error;
    case Code::invalid:
    case Code::corrupt:
      return Status::invalid_usage;
    case Code::internal:
      return Status::internal_error;
    default:
      return Status::system_error;
  }
}

namespace {

// NCCL's pointers to a connection and to a request are a Connection* and a Request*.
Connection& connection_at(void* connection) { return *static_cast<Connection*>(connection); }

template <class Kind>
Result<Kind*> connection_as(void* connection) {
  auto* const kind = dynamic_cast<Kind*>(static_cast<Connection*>(connection));
  if (kind == nullptr) return Error{Code::invalid, "the connection goes the other way"};
  return kind;
}

Result<const Device*> device_at(int number) {
  const auto* const device = Plugin::get().device(number);
  if (device == nullptr) return Error{Code::invalid, format("there is no device {}", number)};
  return device;
}

constexpr int kConnections = 1 << 16;  // NCCL opens no more

char* as_text(const std::string& text) {
  return text.empty() ? nullptr : const_cast<char*>(text.c_str());
}

template <class Properties>
void fill_common(const Device& device, Properties& properties) {
  properties.name = as_text(device.name);
  properties.pci_path = as_text(device.pci_path);
  properties.guid = device.guid;
  properties.pointer_support =
      kHostMemory | (device.takes_gpu_memory ? kCudaMemory | kDmaBufSupport : 0);
  properties.speed = device.speed;
  properties.port = 1;
  properties.latency = device.latency;
  properties.max_connections = kConnections;
  properties.max_receives = kGroupLimit;
  properties.net_device_type = kDeviceOnHost;
  properties.net_device_version = 0;
}

template <class Properties>
void fill(const Device& device, int number, Properties& properties) {
  fill_common(device, properties);
  if constexpr (requires { properties.registration_is_global; })
    properties.registration_is_global = 1;
  if constexpr (requires { properties.force_flush; }) {
    properties.force_flush = 0;
    properties.physical = {};
    properties.physical.count = 1;
    properties.physical.devices[0] = number;
    properties.max_point_to_point_bytes = device.message_limit;
    properties.max_collective_bytes = device.message_limit;
  }
  if constexpr (requires { properties.max_multi_request; }) properties.max_multi_request = 1;
  if constexpr (requires { properties.rail; }) {
    properties.rail = kUnknownId;
    properties.plane = kUnknownId;
  }
}

template <class Properties>
Status get_properties(int number, Properties* properties) noexcept {
  return guarded("getProperties", [&]() -> Result<void> {
    fill(*TRY(device_at(number)), number, *properties);
    return {};
  });
}

Status devices(int* count) noexcept {
  *count = Plugin::get().device_count();
  return Status::success;
}

Status init_plugin(Logger logger) noexcept {
  return guarded("init", [&] { return Plugin::get().init(logger); });
}

Status init_profiled(Logger logger, ProfilerCallback) noexcept { return init_plugin(logger); }

Status init_context(void** context, std::uint64_t, CommunicatorConfig*, Logger logger,
                    ProfilerCallback) noexcept {
  return guarded("init", [&]() -> Result<void> {
    TRY(Plugin::get().init(logger));
    *context = TRY(Plugin::get().new_context()).release();
    return {};
  });
}

Status finalize(void* context) noexcept {
  return guarded("finalize", [&]() -> Result<void> {
    delete static_cast<Context*>(context);
    return {};
  });
}

Status listen_in(void* context, int device, void* handle, void** listener) noexcept {
  return guarded("listen", [&]() -> Result<void> {
    *listener = nullptr;
    Handle made;
    *listener = TRY(static_cast<Context*>(context)->listen(device, made)).release();
    std::memset(handle, 0, kHandleBytes);
    std::memcpy(handle, &made, sizeof made);
    return {};
  });
}

Status connect_in(void* context, int device, void* handle, void** connection, void**) noexcept {
  return guarded("connect", [&]() -> Result<void> {
    *connection = nullptr;
    Handle copy;  // NCCL's memory has no alignment
    std::memcpy(&copy, handle, sizeof copy);
    auto made = static_cast<Context*>(context)->connect(device, copy);
    std::memcpy(handle, &copy, sizeof copy);
    *connection = static_cast<Connection*>(TRY(std::move(made)).release());
    return {};
  });
}

Status listen_shared(int device, void* handle, void** listener) noexcept {
  return listen_in(&Plugin::get().shared_context(), device, handle, listener);
}

Status connect_shared(int device, void* handle, void** connection, void** offload) noexcept {
  return connect_in(&Plugin::get().shared_context(), device, handle, connection, offload);
}

Status connect_configured(int device, CommunicatorConfig*, void* handle, void** connection,
                          void** offload) noexcept {
  return connect_shared(device, handle, connection, offload);
}

Status accept(void* listener, void** connection, void**) noexcept {
  return guarded("accept", [&]() -> Result<void> {
    *connection = nullptr;
    auto accepted = TRY(static_cast<ListenConnection*>(listener)->accept());
    *connection = static_cast<Connection*>(accepted.release());
    return {};
  });
}

template <class Size>
Status register_memory(void* connection, void* data, Size size, int type, void** memory) noexcept {
  return guarded("regMr", [&]() -> Result<void> {
    *memory = nullptr;
    if (type != kHostMemory)
      return Error{Code::invalid,
                   format("memory of type {}: only the host's (1) is registered by its address; a "
                          "GPU's needs DMA-BUF, which CUDA 11.7 and the kernel 5.12 have",
                          type)};
    auto& port = connection_at(connection).port();
    const Lock lock(port.mutex());
    *memory = TRY(port.memory().add_user(port.endpoint(), data, static_cast<std::size_t>(size)));
    return {};
  });
}

Status register_dma_buf(void* connection, void* data, std::size_t size, int type,
                        std::uint64_t offset, int fd, void** memory) noexcept {
  return guarded("regMrDmaBuf", [&]() -> Result<void> {
    *memory = nullptr;
    if (type != kCudaMemory)
      return Error{Code::invalid,
                   format("memory of type {}: by DMA-BUF only a GPU's (2) is registered", type)};
    auto& port = connection_at(connection).port();
    const Lock lock(port.mutex());
    *memory = TRY(port.memory().add_user(port.endpoint(), data, size, DmaBuf{fd, offset}));
    return {};
  });
}

Status deregister(void* connection, void* memory) noexcept {
  return guarded("deregMr", [&]() -> Result<void> {
    auto& port = connection_at(connection).port();
    const Lock lock(port.mutex());
    return port.memory().remove_user(static_cast<MemoryCache::Region*>(memory));
  });
}

Buffer buffer_of(void* data, std::size_t bytes, int tag, void* memory) {
  return {data, bytes, tag, static_cast<const MemoryCache::Region*>(memory)};
}

template <class Size>
Status send(void* connection, void* data, Size size, int tag, void* memory,
            void** request) noexcept {
  return guarded("isend", [&]() -> Result<void> {
    *request = nullptr;
    auto* const sender = TRY(connection_as<SendConnection>(connection));
    *request = TRY(sender->send(buffer_of(data, static_cast<std::size_t>(size), tag, memory)));
    return {};
  });
}

Status send_profiled(void* connection, void* data, std::size_t size, int tag, void* memory, void*,
                     void** request) noexcept {
  return send<std::size_t>(connection, data, size, tag, memory, request);
}

template <class Size>
Status receive(void* connection, int count, void** data, Size* sizes, int* tags, void** memories,
               void** request) noexcept {
  return guarded("irecv", [&]() -> Result<void> {
    *request = nullptr;
    auto* const receiver = TRY(connection_as<ReceiveConnection>(connection));
    if (count < 1 || count > kGroupLimit)
      return Error{Code::invalid, format("{} grouped receives, not 1 to {}", count, kGroupLimit)};
    std::array<Buffer, kGroupLimit> buffers;
    const auto used = static_cast<std::size_t>(count);
    for (std::size_t i = 0; i < used; ++i)
      buffers[i] = buffer_of(data[i], static_cast<std::size_t>(sizes[i]), tags[i], memories[i]);
    *request = TRY(receiver->receive(std::span(buffers).first(used)));
    return {};
  });
}

Status receive_profiled(void* connection, int count, void** data, std::size_t* sizes, int* tags,
                        void** memories, void**, void** request) noexcept {
  return receive<std::size_t>(connection, count, data, sizes, tags, memories, request);
}

// The host's memory is coherent when the message has ended. One read makes all that the NIC has
// written to a GPU before visible there.
Status flush(void* connection, int count, void** data, int* sizes, void** memories,
             void** request) noexcept {
  return guarded("iflush", [&]() -> Result<void> {
    *request = nullptr;
    auto* const receiver = TRY(connection_as<ReceiveConnection>(connection));
    for (int i = 0; i < count; ++i) {
      const auto* const region = static_cast<const MemoryCache::Region*>(memories[i]);
      if (region == nullptr || !region->on_gpu || sizes[i] == 0) continue;
      *request = TRY(receiver->flush(buffer_of(data[i], 0, 0, memories[i])));
      return {};
    }
    return {};
  });
}

Status test(void* request, int* done, int* sizes) noexcept {
  return guarded("test", [&]() -> Result<void> {
    *done = 0;
    auto& tested = *static_cast<Request*>(request);
    if (tested.connection == nullptr) return Error{Code::invalid, "the connection was closed"};
    *done = TRY(tested.connection->test(tested, sizes)) ? 1 : 0;
    return {};
  });
}

Status close_connection(void* connection) noexcept {
  return guarded("close", [&]() -> Result<void> {
    const std::unique_ptr<Connection> closed(static_cast<Connection*>(connection));
    if (closed) closed->close();
    return {};
  });
}

Status close_listen(void* listener) noexcept {
  return guarded("closeListen", [&]() -> Result<void> {
    delete static_cast<ListenConnection*>(listener);
    return {};
  });
}

template <class Register, class Send, class Receive>
constexpr Transfers<Register, Send, Receive> transfers(Register register_function,
                                                       Send send_function,
                                                       Receive receive_function) {
  return {.register_memory = register_function,
          .register_dma_buf = register_dma_buf,
          .deregister = deregister,
          .send = send_function,
          .receive = receive_function,
          .flush = flush,
          .test = test,
          .close_send = close_connection,
          .close_receive = close_connection,
          .close_listen = close_listen,
          .get_device_memory = nullptr,
          .receive_consumed = nullptr};
}

constexpr const char* kName = "Lockstep";

template <class Table>
constexpr Table without_context(decltype(Table::transfers) functions) {
  Table table{};
  table.name = kName;
  table.init = init_plugin;
  table.devices = devices;
  table.get_properties = get_properties;
  table.listen = listen_shared;
  table.connect = connect_shared;
  table.accept = accept;
  table.transfers = functions;
  return table;
}

constexpr Table10 make_table10() {
  return {.name = kName,
          .init = init_profiled,
          .devices = devices,
          .get_properties = get_properties<Properties9>,
          .listen = listen_shared,
          .connect = connect_configured,
          .accept = accept,
          .transfers = transfers<RegisterBytes, Send10, Receive10>(register_memory<std::size_t>,
                                                                   send_profiled, receive_profiled),
          .make_device = nullptr};
}

template <class Properties>
constexpr TableWithContext<Properties> with_context() {
  return {.name = kName,
          .init = init_context,
          .devices = devices,
          .get_properties = get_properties<Properties>,
          .listen = listen_in,
          .connect = connect_in,
          .accept = accept,
          .transfers = transfers<RegisterBytes, Send10, Receive10>(register_memory<std::size_t>,
                                                                   send_profiled, receive_profiled),
          .make_device = nullptr,
          .finalize = finalize,
          .set_attributes = nullptr};
}

}  // namespace
}  // namespace lockstep::comm::nccl

// The symbols that NCCL looks for, the highest version first.
extern "C" {
using namespace lockstep::comm::nccl;  // NOLINT(google-build-using-namespace)
extern const Table7 ncclNetPlugin_v7;
extern const Table8 ncclNetPlugin_v8;
extern const Table9 ncclNetPlugin_v9;
extern const Table10 ncclNetPlugin_v10;
extern const Table11 ncclNetPlugin_v11;
extern const Table12 ncclNetPlugin_v12;

const Table7 ncclNetPlugin_v7 = without_context<Table7>(
    transfers<RegisterBytes7, Send7, Receive7>(register_memory<int>, send<int>, receive<int>));
const Table8 ncclNetPlugin_v8 = without_context<Table8>(transfers<RegisterBytes, Send7, Receive7>(
    register_memory<std::size_t>, send<int>, receive<int>));
const Table9 ncclNetPlugin_v9 = without_context<Table9>(transfers<RegisterBytes, Send9, Receive9>(
    register_memory<std::size_t>, send<std::size_t>, receive<std::size_t>));
const Table10 ncclNetPlugin_v10 = make_table10();
const Table11 ncclNetPlugin_v11 = with_context<Properties11>();
const Table12 ncclNetPlugin_v12 = with_context<Properties12>();
}
