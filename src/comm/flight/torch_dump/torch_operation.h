// An entry of torch's flight recorder as an operation of ours.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "comm/flight/log.h"
#include "text/json.h"

namespace lockstep::comm::torch_dump {

struct TorchEntry {
  FlightOperation operation;
  std::uint64_t batch = 0;  // the same for all parts of a coalesced batch
  bool is_batch = false;    // the whole of one, which follows its parts
  bool is_point_to_point = false;
  bool has_start = false;  // torch has noted when the GPU began it
};

// A send's or recv's peer is its rank in the group. Nullopt: fields are missing or make no sense.
std::optional<TorchEntry> read_torch_entry(const Json& entry);

// Control characters, which could affect a terminal, become question marks.
std::string printable(std::string text);

// The state and times of a batch, to a part of it.
void take_state(const FlightOperation& whole, FlightOperation& part);

}  // namespace lockstep::comm::torch_dump
