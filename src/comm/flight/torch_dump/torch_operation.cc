#include "comm/flight/torch_dump/torch_operation.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <string_view>
#include <utility>

#include "base/format.h"

namespace lockstep::comm::torch_dump {
namespace {

// Parts of torch's names of collectives, the longer ones first, and ours.
constexpr std::array<std::pair<std::string_view, std::string_view>, 14> kNames = {
    {{"barrier", "barrier"},
     {"all_reduce", "all_reduce"},
     {"allreduce", "all_reduce"},
     {"all_gather", "all_gather"},
     {"allgather", "all_gather"},
     {"ALLGATHER", "all_gather"},
     {"reduce_scatter", "reduce_scatter"},
     {"REDUCE_SCATTER", "reduce_scatter"},
     {"all_to_all", "all_to_all"},
     {"alltoall", "all_to_all"},
     {"broadcast", "broadcast"},
     {"reduce", "reduce"},
     {"gather", "gather"},
     {"scatter", "scatter"}}};

struct Type {
  std::string_view torch, name;
  std::int64_t bytes;
};
constexpr std::array kElements = {Type{"Float", "float32", 4},
                                  Type{"Double", "float64", 8},
                                  Type{"Half", "float16", 2},
                                  Type{"BFloat16", "bfloat16", 2},
                                  Type{"Byte", "uint8", 1},
                                  Type{"Char", "int8", 1},
                                  Type{"Short", "int16", 2},
                                  Type{"Int", "int32", 4},
                                  Type{"Long", "int64", 8},
                                  Type{"Bool", "bool", 1},
                                  Type{"ComplexFloat", "complex64", 8},
                                  Type{"ComplexDouble", "complex128", 16},
                                  Type{"Float8_e4m3fn", "float8_e4m3", 1},
                                  Type{"Float8_e5m2", "float8_e5m2", 1}};

// Null unless the entry has it.
const Json& value_of(const Json& entry, const char* name) {
  static const Json none;
  const auto found = entry.find(name);
  return found == entry.end() ? none : *found;
}

std::string text_in(const Json& value) {
  return value.is_string() ? printable(value.get<std::string>()) : std::string();
}

std::optional<std::uint64_t> count_in(const Json& value) {
  if (!value.is_number_integer() || value.get<std::int64_t>() < 0) return std::nullopt;
  return value.get<std::uint64_t>();
}

// None, and 0 in the JSON form: torch has not noted it.
std::optional<FlightTime> time_in(const Json& value) {
  const auto nanoseconds = count_in(value);
  if (!nanoseconds || *nanoseconds == 0) return std::nullopt;
  return FlightTime(Nanoseconds(static_cast<std::int64_t>(*nanoseconds)));
}

const Type* type_in(const Json& types) {
  if (!types.is_array() || types.empty()) return nullptr;
  const auto found = std::ranges::find(kElements, text_in(types[0]), &Type::torch);
  return found == kElements.end() ? nullptr : &*found;
}

// Elements of all tensors together; 0 without any, or if they are too many to be true.
std::int64_t elements_in(const Json& sizes) {
  constexpr double kMost = 1e15;
  double elements = 0;
  if (!sizes.is_array()) return 0;
  for (const Json& tensor : sizes) {
    double product = tensor.is_array() ? 1 : 0;
    if (tensor.is_array())
      for (const Json& length : tensor)
        product *= static_cast<double>(count_in(length).value_or(0));
    elements += product;
  }
  return elements <= kMost ? static_cast<std::int64_t>(elements) : 0;
}

// The smaller side of an operation is the rank's share.
Bytes share_of(const Json& entry, const FlightOperation& operation) {
  // Each rank may have another share.
  if (operation.name == "all_to_all") return 0_B;
  const Type* const input = type_in(value_of(entry, "input_dtypes"));
  const Type* const output = type_in(value_of(entry, "output_dtypes"));
  const auto in = input == nullptr ? 0 : input->bytes * elements_in(value_of(entry, "input_sizes"));
  const auto out =
      output == nullptr ? 0 : output->bytes * elements_in(value_of(entry, "output_sizes"));
  return Bytes(in == 0 || out == 0 ? std::max(in, out) : std::min(in, out));
}

// The innermost line outside torch: "train.py:87". The innermost one comes first.
std::string place_in(const Json& frames) {
  if (!frames.is_array()) return {};
  for (const Json& frame : frames) {
    if (!frame.is_object()) continue;
    const auto file = text_in(value_of(frame, "filename"));
    const auto line = count_in(value_of(frame, "line"));
    const bool is_library = file.find("/torch/") != std::string::npos ||
                            file.find("site-packages/") != std::string::npos;
    if (file.empty() || !line || is_library) continue;
    return format("{}:{}", std::filesystem::path(file).filename().string(), *line);
  }
  return {};
}

// "send 0->1" and "recv 1<-0".
bool read_peer(std::string_view name, FlightOperation& operation) {
  operation.receives = name.starts_with("recv");
  operation.name = operation.receives ? "recv" : "send";
  const auto arrow = name.find(operation.receives ? "<-" : "->");
  if (arrow == std::string_view::npos) return false;
  const auto digits = name.substr(arrow + 2);
  int peer = 0;
  const auto read = std::from_chars(digits.data(), digits.data() + digits.size(), peer);
  if (read.ec != std::errc() || peer < 0) return false;
  operation.peer = peer;
  return true;
}

std::string collective_name(std::string_view name) {
  const auto found = std::ranges::find_if(
      kNames, [&](const auto& each) { return name.find(each.first) != std::string_view::npos; });
  return std::string(found == kNames.end() ? name : found->second);
}

// Gloo's work has no end that torch notes; it is retired when it ends. NCCL's is retired without an
// end when it has timed out.
bool read_state(const Json& entry, bool is_gloo, TorchEntry& read) {
  FlightOperation& operation = read.operation;
  const auto created = time_in(value_of(entry, "time_created_ns"));
  const auto state = text_in(value_of(entry, "state"));
  if (!created || (state != "scheduled" && state != "started" && state != "completed"))
    return false;
  const auto start = time_in(value_of(entry, "time_discovered_started_ns"));
  const auto end = time_in(value_of(entry, "time_discovered_completed_ns"));
  const Json& retired = value_of(entry, "retired");
  const bool is_over = retired.is_boolean() && retired.get<bool>();
  read.has_start = start.has_value();
  operation.enqueued = *created;
  if (state == "scheduled" && !is_over) return true;
  operation.started = std::max(*created, start.value_or(*created));
  operation.state = FlightState::started;
  if (state != "completed" && !is_over) return true;
  operation.state = state == "completed" || is_gloo ? FlightState::done : FlightState::failed;
  const auto limit = count_in(value_of(entry, "timeout_ms")).value_or(0);
  auto ended = end.value_or(*operation.started);
  if (operation.state == FlightState::failed && limit < 1'000'000'000)
    ended = std::max(ended, *created + std::chrono::milliseconds(static_cast<std::int64_t>(limit)));
  operation.ended = std::max(ended, *operation.started);
  return true;
}

}  // namespace

std::string printable(std::string text) {
  for (char& letter : text)
    if (letter < ' ' || letter > '~') letter = '?';
  return text;
}

std::optional<TorchEntry> read_torch_entry(const Json& entry) {
  if (!entry.is_object()) return std::nullopt;
  const auto whole_name = text_in(value_of(entry, "profiling_name"));
  const auto colon = whole_name.find(':');
  if (colon == std::string::npos) return std::nullopt;
  const std::string_view name = std::string_view(whole_name).substr(colon + 1);
  TorchEntry read;
  FlightOperation& operation = read.operation;
  const Json& point_to_point = value_of(entry, "is_p2p");
  read.is_point_to_point = point_to_point.is_boolean() && point_to_point.get<bool>();
  read.is_batch = name == "coalesced";
  const auto number =
      count_in(value_of(entry, read.is_point_to_point ? "p2p_seq_id" : "collective_seq_id"));
  if (!number) return std::nullopt;
  operation.sequence = read.batch = *number;
  const bool has_peer = name.starts_with("send ") || name.starts_with("recv ");
  if (has_peer && !read_peer(name, operation)) return std::nullopt;
  if (!has_peer) operation.name = collective_name(name);
  if (const Type* type = type_in(value_of(entry, "input_dtypes"))) operation.type = type->name;
  operation.bytes = operation.name == "barrier" ? 0_B : share_of(entry, operation);
  operation.label = place_in(value_of(entry, "frames"));
  if (!read_state(entry, whole_name.starts_with("gloo:"), read)) return std::nullopt;
  return read;
}

void take_state(const FlightOperation& whole, FlightOperation& part) {
  part.state = whole.state;
  part.started = whole.started;
  part.ended = whole.ended;
}

}  // namespace lockstep::comm::torch_dump
