// GpuEndpoint: behaves as a provider that takes the memory of GPUs, over another endpoint. A GPU is
// a file in memory. Its addresses are reserved and not accessible, so that no one can use them by
// mistake: the endpoint maps the file that it gets, and exchanges the addresses.
#pragma once

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include <sys/mman.h>

#include "base/check.h"
#include "comm/nccl_plugin/endpoint.h"

namespace lockstep::comm::nccl {

// Pages of this process: of a file, or reserved ones that nothing may access.
class Pages {
 public:
  Pages(std::size_t bytes, int fd, std::uint64_t offset) : bytes_(bytes) {
    data_ = fd < 0 ? ::mmap(nullptr, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0)
                   : ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd,
                            static_cast<off_t>(offset));
    LS_CHECK(data_ != MAP_FAILED);
  }
  ~Pages() { ::munmap(data_, bytes_); }
  Pages(const Pages&) = delete;
  Pages& operator=(const Pages&) = delete;
  char* data() const { return static_cast<char*>(data_); }

 private:
  std::size_t bytes_;
  void* data_ = nullptr;
};

class GpuEndpoint : public TaggedEndpoint {
 public:
  explicit GpuEndpoint(std::unique_ptr<TaggedEndpoint> inner) : inner_(std::move(inner)) {}

  const std::string& address() const override { return inner_->address(); }
  Result<PeerAddress> add_peer(const std::string& address) override {
    return inner_->add_peer(address);
  }
  Result<Posted> send(PeerAddress peer, const Message& message, Operation& operation) override {
    return inner_->send(peer, mapped(message), operation);
  }
  Result<Posted> receive(const Message& message, Operation& operation) override {
    return inner_->receive(mapped(message), operation);
  }
  Result<std::size_t> poll(std::span<Completion> ended) override {
    if (flushes_.empty()) return inner_->poll(ended);
    ended.front() = {flushes_.back(), 0, nullptr, Code::internal};
    flushes_.pop_back();
    return std::size_t{1};
  }
  void cancel(Operation& operation) override { inner_->cancel(operation); }
  bool needs_registration() const override { return false; }
  Result<std::unique_ptr<Registration>> register_memory(void* data, std::size_t bytes) override {
    return inner_->register_memory(data, bytes);
  }
  bool takes_gpu_memory() const override { return true; }
  Result<std::unique_ptr<Registration>> register_dma_buf(void* data, std::size_t bytes,
                                                         const DmaBuf& buffer) override {
    return std::unique_ptr<Registration>(
        std::make_unique<Mapping>(static_cast<char*>(data), bytes, buffer));
  }
  Result<Posted> flush(const Registration&, void*, Operation& operation) override {
    ++flushed;
    flushes_.push_back(&operation);
    return Posted::yes;
  }

  int flushed = 0;

 private:
  struct Mapping : Registration {
    Mapping(char* begin, std::size_t bytes, const DmaBuf& buffer)
        : begin(begin), pages(bytes, buffer.fd, buffer.offset) {}
    void* descriptor() const override { return nullptr; }
    char* begin;
    Pages pages;
  };
  static Message mapped(Message message) {
    const auto* const mapping = dynamic_cast<const Mapping*>(message.registration);
    if (mapping == nullptr) return message;
    message.data = mapping->pages.data() + (static_cast<char*>(message.data) - mapping->begin);
    message.registration = nullptr;
    return message;
  }

  std::unique_ptr<TaggedEndpoint> inner_;
  std::vector<Operation*> flushes_;
};

}  // namespace lockstep::comm::nccl
