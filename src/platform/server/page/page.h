// Page: serves the files of the web page. Each path that is neither a file nor another part of the
// daemon is a view of the page, and gets its index.html.
#pragma once

#include <map>
#include <string>
#include <string_view>

#include "net/http/http.h"
#include "platform/server/page/page_file.h"

namespace lockstep::server {

class Page {
 public:
  // The files outlive this.
  explicit Page(PageFiles files);

  bool is_built() const { return index_ != nullptr; }
  // For a request that no route takes.
  bool takes(const net::HttpRequest& request) const;
  // Requires takes().
  net::HttpResponse answer(const net::HttpRequest& request) const;

 private:
  const PageFile* find(const net::HttpRequest& request) const;

  // A look-up in a table: no path of a request reaches a file system.
  std::map<std::string, const PageFile*, std::less<>> files_;
  const PageFile* index_ = nullptr;
};

}  // namespace lockstep::server
