// Messages about the secrets of projects; see messages.h. No answer has a value.
#pragma once

#include <string>
#include <vector>

#include "base/units.h"
#include "text/record.h"

namespace lockstep::api {

struct SecretView {
  std::string project;
  std::string name;
  std::string set_by;
  Time set{};

  static constexpr auto fields() {
    return record<SecretView>(field("project", &SecretView::project, "the project that has it"),
                              field("name", &SecretView::name, "its name"),
                              field("set_by", &SecretView::set_by, "the user that set its value"),
                              field("set", &SecretView::set, "when its value was set"));
  }
};

struct SecretList {
  std::vector<SecretView> secrets;

  static constexpr auto fields() {
    return record<SecretList>(field("secrets", &SecretList::secrets, "by name, without values"));
  }
};

struct SetSecretRequest {
  std::string value;

  static constexpr auto fields() {
    return record<SetSecretRequest>(required(
        field("value", &SetSecretRequest::value, "text of at most 64 KiB, which no answer has")));
  }
};

}  // namespace lockstep::api
