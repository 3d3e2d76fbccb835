// Labels of a host: a key and a value each, such as rack=a3. Operators set them; a run may ask for
// hosts that have them.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace lockstep::map {

using Labels = std::map<std::string, std::string>;

inline constexpr std::size_t kLabelsMax = 32;  // of one host, and of one run

// Checks the number of labels, and that each key and each value is a word of 1 to 63 letters,
// digits and -_./ which begins with a letter or digit.
Result<void> check_labels(const Labels& labels);

// True if a host with the labels `has` has each label of `asked`.
bool has_labels(const Labels& has, const Labels& asked);

// "rack=a3, zone=b"; empty: there is none.
std::string labels_text(const Labels& labels);

// From words such as rack=a3. check_labels() has not checked them: a value may be empty.
Result<Labels> parse_labels(const std::vector<std::string>& words);

}  // namespace lockstep::map
