// TcpLink: the link to one peer, a connection (Stream) for each lane.
#pragma once

#include <array>
#include <memory>

#include "comm/fabric/link.h"
#include "comm/fabric/tcp/stream.h"

namespace lockstep {

// In the order of kLanes.
using LaneSockets = std::array<Socket, kLaneCount>;

class TcpLink : public Link {
 public:
  static Result<std::unique_ptr<TcpLink>> create(int peer, LaneSockets sockets);
  ~TcpLink() override;

  std::byte* claim(Lane lane) override { return forgotten_ ? nullptr : at(lane).claim(); }
  void publish(Lane lane, const Header& header) override { at(lane).publish(header); }
  std::optional<Incoming> front(Lane lane) override { return at(lane).front(); }
  void release(Lane lane) override { at(lane).release(); }
  std::uint64_t sent(Lane lane) const override { return at(lane).sent(); }
  std::uint64_t arrived(Lane lane) const override { return at(lane).arrived(); }
  bool has_unsent(Lane lane) const override { return at(lane).has_unsent(); }
  std::size_t piece_bytes() const override { return kTcpPieceBytes; }
  void set_sleeping(Lane, bool) override {}  // arrivals wake through epoll
  void nudge(Lane) override {}               // nothing is shared beside it

  int peer() const { return peer_; }
  void forget() { forgotten_ = true; }
  bool forgotten() const { return forgotten_; }
  Stream& stream(std::size_t lane) { return *streams_[lane]; }
  bool is_over() const;
  bool has_work() const;
  // As Stream::expect().
  bool expect(Lane lane) { return at(lane).expect(); }
  // `peer_lost` when a connection has ended, unless the peer is forgotten.
  Result<void> progress();

 private:
  TcpLink(int peer, std::byte* memory) : peer_(peer), memory_(memory) {}
  Stream& at(Lane lane) { return *streams_[static_cast<std::size_t>(lane)]; }
  const Stream& at(Lane lane) const { return *streams_[static_cast<std::size_t>(lane)]; }

  const int peer_;
  std::byte* const memory_;
  bool forgotten_ = false;
  std::array<std::unique_ptr<Stream>, kLaneCount> streams_;
};

}  // namespace lockstep
