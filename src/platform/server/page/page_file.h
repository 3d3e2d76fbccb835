// PageFile: a file of the web page, as the program has it in itself.
#pragma once

#include <span>
#include <string_view>

namespace lockstep::server {

struct PageFile {
  std::string_view path;  // below the page's root, such as "assets/index-4f2a.js"
  std::string_view content_type;
  std::string_view digest;  // of its content, hex digits
  std::string_view bytes;   // as they are sent
  bool is_gzip = false;     // the bytes are compressed
};

// Empty: the program was built without the page.
using PageFiles = std::span<const PageFile>;

}  // namespace lockstep::server
