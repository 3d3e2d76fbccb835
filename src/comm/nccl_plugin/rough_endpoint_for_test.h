// RoughEndpoint: behaves as a provider that is hard to work with, over another endpoint. It is busy
// at every other call, holds sends back and passes them on in another order (as EFA's datagrams,
// which have none), and can be without memory to register.
#pragma once

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "base/random.h"
#include "comm/nccl_plugin/endpoint.h"

namespace lockstep::comm::nccl {

class RoughEndpoint : public TaggedEndpoint {
 public:
  RoughEndpoint(std::unique_ptr<TaggedEndpoint> inner, std::uint64_t seed)
      : inner_(std::move(inner)), random_(seed) {}

  const std::string& address() const override { return inner_->address(); }
  Result<PeerAddress> add_peer(const std::string& address) override {
    return inner_->add_peer(address);
  }
  Result<Posted> send(PeerAddress peer, const Message& message, Operation& operation) override {
    if (is_busy()) return Posted::busy;
    held_.push_back({peer, message, &operation});
    return Posted::yes;
  }
  Result<Posted> receive(const Message& message, Operation& operation) override {
    if (is_busy()) return Posted::busy;
    return inner_->receive(message, operation);
  }
  Result<std::size_t> poll(std::span<Completion> ended) override {
    while (!held_.empty() && random_.below(4) != 0) {
      const auto chosen = random_.below(held_.size());
      std::swap(held_[chosen], held_.back());
      reordered_ += chosen + 1 != held_.size();
      auto& held = held_.back();
      if (TRY(inner_->send(held.peer, held.message, *held.operation)) == Posted::busy) break;
      held_.pop_back();
    }
    return inner_->poll(ended);
  }
  void cancel(Operation& operation) override { inner_->cancel(operation); }
  bool needs_registration() const override { return true; }
  Result<std::unique_ptr<Registration>> register_memory(void*, std::size_t) override {
    if (out_of_memory) return Error{Code::exhausted, "no memory to register"};
    ++registered;
    return std::unique_ptr<Registration>(std::make_unique<NoRegistration>());
  }
  bool takes_gpu_memory() const override { return inner_->takes_gpu_memory(); }
  Result<std::unique_ptr<Registration>> register_dma_buf(void* data, std::size_t bytes,
                                                         const DmaBuf& buffer) override {
    return inner_->register_dma_buf(data, bytes, buffer);
  }
  Result<Posted> flush(const Registration& registration, void* data,
                       Operation& operation) override {
    if (is_busy()) return Posted::busy;
    return inner_->flush(registration, data, operation);
  }

  std::uint64_t busy() const { return busy_; }
  std::uint64_t reordered() const { return reordered_; }
  bool out_of_memory = false;
  int registered = 0;

 private:
  class NoRegistration : public Registration {
   public:
    void* descriptor() const override { return nullptr; }
  };
  struct Held {
    PeerAddress peer = 0;
    Message message;
    Operation* operation = nullptr;
  };
  bool is_busy() {
    const bool busy = random_.below(2) == 0;
    busy_ += busy;
    return busy;
  }

  std::unique_ptr<TaggedEndpoint> inner_;
  Random random_;
  std::vector<Held> held_;
  std::uint64_t busy_ = 0;
  std::uint64_t reordered_ = 0;
};

}  // namespace lockstep::comm::nccl
