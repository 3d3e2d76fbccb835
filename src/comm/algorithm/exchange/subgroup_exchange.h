// SubgroupExchange: a MessageExchange narrowed to some of its ranks, so that an algorithm for all
// ranks runs among these. Ranks keep their numbers. They share no memory here, because the caller
// has already used it.
#pragma once

#include "comm/algorithm/exchange/message_exchange.h"

namespace lockstep::comm {

class SubgroupExchange : public MessageExchange {
 public:
  // ring: the ranks, this one among them, in an order equal on all of them.
  SubgroupExchange(MessageExchange& whole, std::span<const int> ring)
      : whole_(whole), ring_(ring) {}

  int rank() const override { return whole_.rank(); }
  int size() const override { return static_cast<int>(ring_.size()); }
  std::span<const int> ring() const override { return ring_; }
  std::span<const std::vector<int>> hosts() const override { return {}; }
  HostGroup* host_group() override { return nullptr; }
  std::size_t piece_bytes() const override { return whole_.piece_bytes(); }

  Result<std::byte*> claim(int peer) override { return whole_.claim(peer); }
  void publish(int peer, std::size_t piece, std::size_t bytes) override {
    whole_.publish(peer, piece, bytes);
  }
  Result<const std::byte*> receive(int peer, std::size_t piece, std::size_t bytes) override {
    return whole_.receive(peer, piece, bytes);
  }
  void release(int peer) override { whole_.release(peer); }
  Result<void> wait_for(int peer, WaitReason what, const std::function<bool()>& ready) override {
    return whole_.wait_for(peer, what, ready);
  }
  Result<void> check_call(int peer, const MessageHeader& header) const override {
    return whole_.check_call(peer, header);
  }

 private:
  MessageExchange& whole_;
  const std::span<const int> ring_;
};

}  // namespace lockstep::comm
