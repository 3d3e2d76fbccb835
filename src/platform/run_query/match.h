// The runs that a query selects. web/src/query/match.ts decides the same.
#pragma once

#include <functional>
#include <map>
#include <set>
#include <string>

#include "platform/run_query/query.h"
#include "platform/run_query/value.h"

namespace lockstep::run_query {

// The values of one run for which a query may ask.
struct RunValues {
  std::map<std::string, Value, std::less<>> values{};  // of the names of names_in(); absent: none
  std::map<std::string, std::string> tags{};
  std::string words{};  // id, name, user, reason and command, in lower case, a line each
};

// The fields, metrics and settings of terms, sort and group, without tags.
std::set<std::string> names_in(const Query& query);
bool has_words(const Query& query);
bool has_tags(const Query& query);

// A tag (tag.KEY) has a value, too.
Value value_of(const RunValues& run, const std::string& name);

bool matches(const RunValues& run, const Term& term, Time now);
bool matches(const RunValues& run, const Query& query, Time now);

}  // namespace lockstep::run_query
