// A plugin as NCCL uses one, for tests and benchmarks: opened by dlopen, its table picked by
// symbol, and the functions of each version behind one interface.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include <dlfcn.h>

#include "base/format.h"
#include "comm/nccl_plugin/interface.h"

namespace lockstep::comm::nccl {

using HandleBytes = std::array<char, kHandleBytes>;

// The order in which NCCL looks for a table.
inline constexpr std::array kVersions = {12, 11, 10, 9, 8, 7};

struct PropertiesOfAll {
  std::string name;
  int pointer_support = 0;
  int speed = 0;
  float latency = 0;
  int max_receives = 0;
  std::size_t message_limit = 0;
};

class Net {
 public:
  virtual ~Net() = default;
  virtual Status init(Logger logger) = 0;
  virtual int devices() = 0;
  virtual PropertiesOfAll properties(int device) = 0;
  virtual Status listen(int device, HandleBytes& handle, void** listener) = 0;
  virtual Status connect(int device, HandleBytes& handle, void** connection) = 0;
  virtual Status accept(void* listener, void** connection) = 0;
  virtual Status register_memory(void* connection, void* data, std::size_t size, int type,
                                 void** memory) = 0;
  virtual Status register_dma_buf(void* connection, void* data, std::size_t size, int fd,
                                  void** memory) = 0;
  virtual Status deregister(void* connection, void* memory) = 0;
  virtual Status flush(void* connection, void* data, int size, void* memory, void** request) = 0;
  virtual Status send(void* connection, void* data, std::size_t size, int tag, void* memory,
                      void** request) = 0;
  virtual Status receive(void* connection, std::span<void*> data, std::span<std::size_t> sizes,
                         std::span<int> tags, std::span<void*> memories, void** request) = 0;
  virtual Status test(void* request, int* done, int* sizes) = 0;
  virtual Status close_send(void* connection) = 0;
  virtual Status close_receive(void* connection) = 0;
  virtual Status close_listen(void* listener) = 0;
  virtual Status finalize() = 0;
};

template <class Table, class Properties>
class NetOf : public Net {
 public:
  explicit NetOf(const Table& table) : table_(table) {}

  Status init(Logger logger) override {
    CommunicatorConfig config{-1};
    if constexpr (requires { table_.finalize; })
      return table_.init(&context_, 7, &config, logger, nullptr);
    else if constexpr (requires { table_.init(logger, nullptr); })
      return table_.init(logger, nullptr);
    else
      return table_.init(logger);
  }
  int devices() override {
    int count = -1;
    return table_.devices(&count) == Status::success ? count : -1;
  }
  PropertiesOfAll properties(int device) override {
    Properties properties{};
    if (table_.get_properties(device, &properties) != Status::success) return {};
    PropertiesOfAll all{properties.name,    properties.pointer_support, properties.speed,
                        properties.latency, properties.max_receives,    0};
    if constexpr (requires { properties.max_point_to_point_bytes; })
      all.message_limit = properties.max_point_to_point_bytes;
    return all;
  }
  Status listen(int device, HandleBytes& handle, void** listener) override {
    if constexpr (requires { table_.finalize; })
      return table_.listen(context_, device, handle.data(), listener);
    else
      return table_.listen(device, handle.data(), listener);
  }
  Status connect(int device, HandleBytes& handle, void** connection) override {
    CommunicatorConfig config{-1};
    if constexpr (requires { table_.finalize; })
      return table_.connect(context_, device, handle.data(), connection, nullptr);
    else if constexpr (requires {
                         table_.connect(device, &config, handle.data(), connection, nullptr);
                       })
      return table_.connect(device, &config, handle.data(), connection, nullptr);
    else
      return table_.connect(device, handle.data(), connection, nullptr);
  }
  Status accept(void* listener, void** connection) override {
    return table_.accept(listener, connection, nullptr);
  }
  Status register_memory(void* connection, void* data, std::size_t size, int type,
                         void** memory) override {
    using Size = std::conditional_t<
        std::is_same_v<decltype(table_.transfers.register_memory), RegisterBytes7>, int,
        std::size_t>;
    return table_.transfers.register_memory(connection, data, static_cast<Size>(size), type,
                                            memory);
  }
  Status register_dma_buf(void* connection, void* data, std::size_t size, int fd,
                          void** memory) override {
    return table_.transfers.register_dma_buf(connection, data, size, kCudaMemory, 0, fd, memory);
  }
  Status deregister(void* connection, void* memory) override {
    return table_.transfers.deregister(connection, memory);
  }
  Status flush(void* connection, void* data, int size, void* memory, void** request) override {
    return table_.transfers.flush(connection, 1, &data, &size, &memory, request);
  }
  Status send(void* connection, void* data, std::size_t size, int tag, void* memory,
              void** request) override {
    if constexpr (kOld)
      return table_.transfers.send(connection, data, static_cast<int>(size), tag, memory, request);
    else if constexpr (requires {
                         table_.transfers.send(connection, data, size, tag, memory, request);
                       })
      return table_.transfers.send(connection, data, size, tag, memory, request);
    else
      return table_.transfers.send(connection, data, size, tag, memory, nullptr, request);
  }
  Status receive(void* connection, std::span<void*> data, std::span<std::size_t> sizes,
                 std::span<int> tags, std::span<void*> memories, void** request) override {
    const auto count = static_cast<int>(data.size());
    if constexpr (kOld) {
      std::vector<int> narrow(sizes.begin(), sizes.end());
      return table_.transfers.receive(connection, count, data.data(), narrow.data(), tags.data(),
                                      memories.data(), request);
    } else if constexpr (requires {
                           table_.transfers.receive(connection, count, data.data(), sizes.data(),
                                                    tags.data(), memories.data(), request);
                         }) {
      return table_.transfers.receive(connection, count, data.data(), sizes.data(), tags.data(),
                                      memories.data(), request);
    } else {
      return table_.transfers.receive(connection, count, data.data(), sizes.data(), tags.data(),
                                      memories.data(), nullptr, request);
    }
  }
  Status test(void* request, int* done, int* sizes) override {
    return table_.transfers.test(request, done, sizes);
  }
  Status close_send(void* connection) override { return table_.transfers.close_send(connection); }
  Status close_receive(void* connection) override {
    return table_.transfers.close_receive(connection);
  }
  Status close_listen(void* listener) override { return table_.transfers.close_listen(listener); }
  Status finalize() override {
    if constexpr (requires { table_.finalize; })
      return table_.finalize(std::exchange(context_, nullptr));
    else
      return Status::success;
  }

 private:
  static constexpr bool kOld = std::is_same_v<Table, Table7> || std::is_same_v<Table, Table8>;
  const Table& table_;
  void* context_ = nullptr;
};

template <class Table, class Properties>
std::unique_ptr<Net> net_of(void* symbol) {
  return std::make_unique<NetOf<Table, Properties>>(*static_cast<const Table*>(symbol));
}

inline std::unique_ptr<Net> net_of_version(int version, void* symbol) {
  switch (version) {
    case 12:
      return net_of<Table12, Properties12>(symbol);
    case 11:
      return net_of<Table11, Properties11>(symbol);
    case 10:
      return net_of<Table10, Properties9>(symbol);
    case 9:
      return net_of<Table9, Properties9>(symbol);
    case 8:
      return net_of<Table8, Properties8>(symbol);
    default:
      return net_of<Table7, Properties7>(symbol);
  }
}

// As an NCCL that knows the interfaces up to `version`: the first table that it finds. Null if
// none.
inline std::unique_ptr<Net> open_plugin(const char* path, int version) {
  void* const library = ::dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return nullptr;
  for (const int known : kVersions) {
    if (known > version) continue;
    void* const symbol = ::dlsym(library, format("ncclNetPlugin_v{}", known).c_str());
    if (symbol != nullptr) return net_of_version(known, symbol);
  }
  return nullptr;
}

}  // namespace lockstep::comm::nccl
