// The forms of names and values that the API server of Kubernetes accepts. Each error says what was
// expected, so that it is found before `kubectl apply`.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"

namespace lockstep::k8s {

using KeyValue = std::pair<std::string, std::string>;
using KeyValues = std::vector<KeyValue>;

// A DNS label (RFC 1035) of at most `length_max` characters: a Service, and the first part of its
// Pods' host names.
Result<void> check_dns_label(std::string_view name, std::size_t length_max = 63);
// A DNS subdomain (RFC 1123): most other objects.
Result<void> check_object_name(std::string_view name);
// A variable of a container.
Result<void> check_variable(std::string_view name);
// [PREFIX/]NAME: the key of a label or an annotation, or a resource such as nvidia.com/gpu.
Result<void> check_key(std::string_view key);
Result<void> check_label_value(std::string_view value);
// A path inside a container.
Result<void> check_path(std::string_view path);

// KEY=VALUE; the value may be empty and may contain '='.
Result<KeyValue> parse_key_value(std::string_view words);
// KEY=VALUE with the rules for labels.
Result<KeyValue> parse_label(std::string_view words);

// A quantity of Kubernetes: 2, 0.5, 500m, 64Gi, 100G. "64 GiB" is read as 64Gi, "100 GB" as 100G.
Result<std::string> parse_quantity(std::string_view words);

}  // namespace lockstep::k8s
