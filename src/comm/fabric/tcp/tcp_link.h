// TcpLink: the link to one peer, with a connection (Stream) for each channel.
#pragma once

#include <array>
#include <memory>

#include "comm/fabric/link.h"
#include "comm/fabric/tcp/stream.h"

namespace lockstep::comm {

// In the order of kLinkChannels.
using ChannelSockets = std::array<net::Socket, kLinkChannelCount>;

class TcpLink : public Link {
 public:
  static Result<std::unique_ptr<TcpLink>> create(int peer, ChannelSockets sockets);
  ~TcpLink() override;

  std::byte* claim(LinkChannel channel) override {
    return peer_has_left_ ? nullptr : at(channel).claim();
  }
  void publish(LinkChannel channel, const MessageHeader& header) override {
    at(channel).publish(header);
  }
  std::optional<IncomingMessage> front(LinkChannel channel) override { return at(channel).front(); }
  void release(LinkChannel channel) override { at(channel).release(); }
  std::uint64_t sent(LinkChannel channel) const override { return at(channel).sent(); }
  std::uint64_t arrived(LinkChannel channel) const override { return at(channel).arrived(); }
  bool has_unsent(LinkChannel channel) const override { return at(channel).has_unsent(); }
  std::size_t piece_bytes() const override { return kTcpPieceBytes; }
  void set_sleeping(LinkChannel, bool) override {}  // arrivals wake through epoll
  void notify(LinkChannel) override {}              // nothing is shared beside it

  int peer() const { return peer_; }
  void set_peer_left() { peer_has_left_ = true; }
  bool peer_has_left() const { return peer_has_left_; }
  Stream& stream(std::size_t channel) { return *streams_[channel]; }
  bool is_closed() const;
  bool has_work() const;
  // As Stream::assume_readable().
  bool assume_readable(LinkChannel channel) { return at(channel).assume_readable(); }
  // `peer_lost` when a connection has ended, unless the peer has left.
  Result<void> progress();

 private:
  TcpLink(int peer, std::byte* memory) : peer_(peer), memory_(memory) {}
  Stream& at(LinkChannel channel) { return *streams_[static_cast<std::size_t>(channel)]; }
  const Stream& at(LinkChannel channel) const {
    return *streams_[static_cast<std::size_t>(channel)];
  }

  const int peer_;
  std::byte* const memory_;
  bool peer_has_left_ = false;
  std::array<std::unique_ptr<Stream>, kLinkChannelCount> streams_;
};

}  // namespace lockstep::comm
